package rollout

import (
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// model is a cluster in memory: it applies Decide and Advance as the shell does,
// in steps of one second.
type model struct {
	t      testingT
	spec   group.Spec
	rec    Records
	now    time.Time
	nodes  map[string]*node
	leader string
	// broken revisions never become healthy.
	broken map[string]bool
	paused bool
	// deleteDisks are given up.
	deleteDisks []string
	term        uint64
	// what is counted
	updates   map[string][]string // slot: revisions it was moved to
	order     []string
	transfers int
	calls     int
	answers   map[string]*operation.CallResult
	maxDown   int
	// lose says what happens to a platform call: "" done, "answer", "request".
	lose func() string
	// harmed says why a call hurt more than it may; empty while none did.
	harmed string
}

type node struct {
	slot, uuid, revision, boot string
	boots                      int
	bootAt                     time.Time // when the boot is up
	drained                    map[string]operation.StepReport
}

// testingT is what testing.T and rapid.T share here.
type testingT interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func newModel(t testingT, spec group.Spec) *model {
	m := &model{t: t, spec: spec, now: epoch, nodes: map[string]*node{}, broken: map[string]bool{}, term: 1,
		updates: map[string][]string{}, answers: map[string]*operation.CallResult{}}
	m.rec.Revisions = map[string]group.RevisionRecord{}
	return m
}

const bootTime = 20 * time.Second

func (m *model) want(name string) {
	m.spec.Template.Compose = compose(name)
	rev := m.spec.Revision()
	m.rec.Revisions[rev] = group.RevisionRecord{Digest: rev, ComposeHash: hashOf(name)}
}

func (m *model) up(n *node) bool { return !m.now.Before(n.bootAt) }

// works: up and not broken by its revision.
func (m *model) works(n *node) bool { return m.up(n) && !m.broken[n.revision] }

func (m *model) elect() {
	if n := m.nodes[m.leader]; n != nil && m.works(n) {
		return
	}
	m.leader = ""
	working := 0
	for _, slot := range m.spec.Members() {
		if n := m.nodes[slot]; n != nil && m.works(n) {
			working++
			if m.leader == "" {
				m.leader = slot
			}
		}
	}
	if working < group.Quorum(m.spec.Replicas) && m.spec.Workload.Kind == "consul" && len(m.nodes) == m.spec.Replicas {
		m.leader = ""
	}
}

func (m *model) observe() Observation {
	m.elect()
	obs := Observation{Platform: Source{Known: true}, Records: Source{Known: true}, At: m.now, Paused: m.paused, DeleteDisks: m.deleteDisks}
	for slot, n := range m.nodes {
		_, ordinal, err := group.ParseSlot(slot)
		if err != nil {
			m.t.Fatal(err)
		}
		o := SlotObservation{Slot: slot, Ordinal: ordinal, Instance: &Instance{
			VMUUID: n.uuid, InstanceID: "i-" + n.uuid, AppID: m.spec.AppID, Name: slot, Status: "running", InProgress: !m.up(n),
			ComposeHash: m.rec.Revisions[n.revision].ComposeHash,
		}}
		if m.up(n) {
			o.Admission = &policy.Admission{Slot: slot, BootID: n.boot, InstanceID: "i-" + n.uuid, Revision: n.revision, AdmittedAt: n.bootAt}
			o.Report = m.report(n)
		}
		obs.Slots = append(obs.Slots, o)
	}
	return obs
}

func (m *model) report(n *node) *Report {
	r := healthyReport(n.slot, m.now, m.spec.Workload.Kind, m.spec.Members())
	r.BootID, r.ReceivedAt, r.BootAt, r.HealthyFor = n.boot, m.now, n.bootAt, max(m.now.Sub(n.bootAt), time.Millisecond)
	if r.Role != RoleNone {
		r.Leader = m.leader
		if m.leader == n.slot {
			r.Role = RoleLeader
		}
	}
	if !m.works(n) {
		no := false
		r.Health, r.MemberAlive, r.MemberReady, r.CaughtUp, r.HealthyFor = Unhealthy, false, false, &no, 0
		r.Role, r.Voters, r.QuorumMember, r.Leader = RoleUnknown, nil, false, ""
	}
	for _, s := range n.drained {
		r.Steps = append(r.Steps, s)
	}
	return r
}

// agents do at once what their current order says.
func (m *model) agents() {
	for _, op := range m.rec.Operations {
		n := m.nodes[op.Slot]
		order, ok := operation.CurrentOrder(op)
		if !ok || n == nil || !m.up(n) {
			continue
		}
		key := order.Operation + string(order.Verb)
		if _, done := n.drained[key]; done {
			continue
		}
		step := operation.StepReport{Operation: order.Operation, Verb: order.Verb, Attempt: order.Attempt, State: operation.StepDone}
		if order.Verb == operation.VerbDrain && order.ExpectedLeader == op.Slot && m.leader == op.Slot && len(order.Candidates) > 0 {
			m.leader = order.Candidates[0]
			m.transfers++
			step.Transferred, step.NewLeader = true, m.leader
		}
		n.drained[key] = step
	}
}

func (m *model) platform(op operation.Operation, e operation.Effect) {
	m.calls++
	lost := ""
	if m.lose != nil {
		lost = m.lose()
	}
	if lost == "request" {
		m.answers[op.ID] = &operation.CallResult{Number: e.Number, Outcome: operation.OutcomeUnknown}
		return
	}
	m.watch(op)
	switch e.Call {
	case operation.PartCreate:
		m.nodes[op.Slot] = &node{slot: op.Slot, uuid: fmt.Sprintf("vm-%s-%d", op.Slot, m.calls), drained: map[string]operation.StepReport{}}
	case operation.PartDelete:
		delete(m.nodes, op.Slot)
	case operation.PartCompose, operation.PartRestart, operation.PartOSImage, operation.PartResources:
	}
	if n := m.nodes[op.Slot]; n != nil {
		n.boots++
		n.boot, n.bootAt, n.drained = fmt.Sprintf("boot-%s-%d", op.Slot, n.boots), m.now.Add(bootTime), map[string]operation.StepReport{}
		n.revision = op.To
		if op.Kind != operation.Create {
			m.updates[op.Slot] = append(m.updates[op.Slot], op.To)
			m.order = append(m.order, op.Slot)
		}
	}
	if lost == "answer" {
		delete(m.answers, op.ID)
		return
	}
	m.answers[op.ID] = &operation.CallResult{Number: e.Number, Outcome: operation.OutcomeDone}
}

// watch notes when a call takes down a working member that could not be spared.
func (m *model) watch(op operation.Operation) {
	n := m.nodes[op.Slot]
	if n == nil || !m.works(n) {
		return
	}
	others, down := 0, 0
	for _, slot := range m.spec.Members() {
		other := m.nodes[slot]
		switch {
		case other == nil || other == n:
		case m.works(other):
			others++
		default:
			down++
		}
	}
	voters := m.spec.Workload.Kind == "consul" && m.spec.Replicas > 2
	switch {
	case voters && others < group.Quorum(m.spec.Replicas):
		m.harmed = fmt.Sprintf("%s of %s leaves %d of %d voters", op.Kind, op.Slot, others, m.spec.Replicas)
	case down+1 > group.MaxUnavailable(m.spec):
		m.harmed = fmt.Sprintf("%s of %s makes %d unavailable", op.Kind, op.Slot, down+1)
	case m.leader == op.Slot && m.spec.Workload.Kind != "none" && m.spec.Replicas > 1:
		m.harmed = fmt.Sprintf("%s of %s, which leads", op.Kind, op.Slot)
	}
}

// pass is one round of the shell: advance what is open, then decide.
func (m *model) pass() Plan {
	m.agents()
	obs := m.observe()
	for i, op := range m.rec.Operations {
		if op.Phase.Ended() {
			continue
		}
		f := FactsFor(m.spec, m.rec, obs, m.now, DefaultTiming(), op)
		f.Term, f.Call = m.term, m.answers[op.ID]
		next, effects := operation.Advance(op, f, m.now)
		m.rec.Operations[i] = next // recorded first
		for _, e := range effects {
			if e.Kind == operation.CallPlatform {
				m.platform(next, e)
			}
		}
		obs = m.observe()
	}
	p := Decide(m.spec, m.rec, m.observe(), m.now, DefaultTiming())
	m.record(&p)
	m.checkInvariants(p)
	return p
}

func (m *model) record(p *Plan) {
	for _, a := range p.Actions {
		op, ok := p.Begin(a, m.term, m.now)
		if !ok {
			continue
		}
		if a.Retarget != "" {
			for i := range m.rec.Operations {
				if old := m.rec.Operations[i]; old.ID == a.Retarget {
					m.rec.Operations[i], _ = operation.Advance(old, operation.Facts{Term: m.term, Retargeted: true}, m.now)
				}
			}
		}
		m.rec.Operations = append(m.rec.Operations, op)
	}
	m.rec.Rollout, m.rec.Slots, m.rec.Status = p.Rollout, p.Slots, p.Status
	m.rec.Operations = slices.DeleteFunc(m.rec.Operations, func(op operation.Operation) bool {
		return op.Phase.Ended() && op.Rollout != p.Rollout.ID
	})
}

func (m *model) checkInvariants(p Plan) {
	for _, a := range p.Actions {
		if a.Execute == (len(a.Holds) > 0) {
			m.t.Errorf("%s %s: execute %t with holds %v", a.Kind, a.Slot, a.Execute, a.Holds)
		}
	}
	down := 0
	for _, n := range m.nodes {
		if !m.works(n) && n.boots > 1 {
			down++
		}
	}
	m.maxDown = max(m.maxDown, down)
}

// runUntil passes second by second until the rollout has the state.
func (m *model) runUntil(state operation.RolloutState, limit time.Duration) Plan {
	m.t.Helper()
	var p Plan
	for end := m.now.Add(limit); m.now.Before(end); m.now = m.now.Add(time.Second) {
		p = m.pass()
		if p.Rollout.State == state {
			return p
		}
	}
	m.t.Fatalf("not %s after %s\n%s", state, limit, describe(p))
	return p
}

func (m *model) run(d time.Duration) (p Plan) {
	for end := m.now.Add(d); m.now.Before(end); m.now = m.now.Add(time.Second) {
		p = m.pass()
	}
	return p
}
