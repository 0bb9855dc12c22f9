package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// EvidenceAge bounds the age of the evidence that a decision rests on: a coordinator may not know a
// younger event. An agent's last report counts for that long. While the platform hides a change,
// the coordinator has no newer evidence.
var EvidenceAge = rollout.Timing{}.OrDefault().StaleAfter

// state is the content of the trace up to an event.
type state struct {
	now     time.Duration
	groups  map[string]*groupState
	members map[string]*member
	// operations are the existing records, by id.
	operations map[string]*operation.Operation
	// caller of an Operation is the writer of the record that announces its last call.
	caller map[string]string
	// index of the present event. recordedAt and failedAt are the events at which Operations were
	// recorded and failed. decidedAt is the event of an operator's last decision about a group. A
	// missing entry means never.
	index                           int
	recordedAt, failedAt, decidedAt map[string]int
	// storeIndex is the store's last index.
	storeIndex uint64
	// switches of the operators that are set, and since when.
	switches map[string]time.Duration
	// cleared are the times at which switches were last removed.
	cleared map[string]time.Duration
	// rollouts are the existing records, by id; failedFrom is the time of a rollout's verdict.
	rollouts   map[string]*operation.Rollout
	failedFrom map[string]time.Duration
	// stable is the target of the last rollout that was complete, by group.
	stable map[string]string
	// failedHung are the rollouts that failed by a Slot whose workload hung in its step.
	failedHung map[string]bool
	// refusals counts, by rollout and Slot, the consecutive steps that the platform refused.
	refusals map[string]map[string]int
	// givenUp are the disks that operators gave up, by group, oldest first. endings are their
	// deletion requests for groups, asked their other requests by id; both stay after the request's
	// removal. left are the CVMs whose members left with their disks given up.
	givenUp map[string][]givenUp
	endings map[string]*store.DeleteGroup
	// spared are the times at which a group's deletion was cancelled.
	spared map[string]time.Duration
	asked  map[string]*store.QueueRequest
	left   map[string]bool
	// unseen maps CVMs that no coordinator may know of to their groups: the outcome of their
	// creation is unknown (unsure), and it took effect while the platform hid changes (hides).
	unseen map[string]string
	unsure map[int]bool
	hides  bool
	// healed: all faults ended, at healedAt.
	healed   bool
	healedAt time.Duration
}

// groupState is the state of a group.
type groupState struct {
	// specs that were in force, oldest first; nil where the group had none.
	specs []dated
	// leader of the workload, since ledAt.
	leader string
	ledAt  time.Duration
	// set: the workload reported its members: voters, and learners since learnAt.
	set              bool
	voters, learners []string
	learnAt          time.Duration
}

type dated struct {
	from time.Duration
	spec *group.Spec
}

// givenUp are Slots whose disks were given up, until the withdrawal; 0: not withdrawn.
type givenUp struct {
	slots []string
	until time.Duration
}

// member is the state of a Slot. A nil record does not exist.
type member struct {
	slot, group string
	bound       *group.SlotRecord
	// boundAt is the time at which the bound CVM was bound.
	boundAt   time.Duration
	policy    *policy.SlotPolicy
	admission *policy.Admission
	// generation is the highest of its admissions, also after the removal of a record.
	generation uint64
	// ran is the Revision of the last admitted Boot, also after the removal of its record.
	ran string
	// open are its Operations that did not end, oldest first.
	open []*operation.Operation
	// serving are its Boots that serve; ever: a Boot served. servedAt is the event at which a Boot
	// last began to serve.
	serving  []string
	ever     bool
	servedAt int
	// changed is when it last began or ceased to serve; without either, when it got a CVM.
	changed time.Duration
	// muted: its agent is unheard since mutedAt; heardAt is when it was heard again.
	muted            bool
	mutedAt, heardAt time.Duration
	// hung: its workload hangs, and has neither served nor restarted since.
	hung bool
	// goesBy is the Revision whose checks its agent runs and has judged completely; "": none.
	goesBy string
	// away: an open Operation takes the member away, or an earlier one did and the member has not
	// served since. takenAt is the event at which that began.
	away    bool
	takenAt int
}

// walk shows each event with the state directly before it.
func walk(t trace.Trace, look func(s *state, i int, e trace.Event)) {
	s := &state{
		groups: map[string]*groupState{}, members: map[string]*member{}, operations: map[string]*operation.Operation{},
		caller: map[string]string{}, recordedAt: map[string]int{}, failedAt: map[string]int{}, decidedAt: map[string]int{}, switches: map[string]time.Duration{}, cleared: map[string]time.Duration{},
		givenUp: map[string][]givenUp{}, endings: map[string]*store.DeleteGroup{}, spared: map[string]time.Duration{}, asked: map[string]*store.QueueRequest{}, left: map[string]bool{},
		rollouts: map[string]*operation.Rollout{}, failedFrom: map[string]time.Duration{}, stable: map[string]string{}, failedHung: map[string]bool{}, refusals: map[string]map[string]int{},
		unseen: map[string]string{}, unsure: map[int]bool{},
	}
	for i, e := range t {
		s.now, s.index = e.At, i
		look(s, i, e)
		s.apply(e)
	}
}

// apply updates the state with e.
func (s *state) apply(e trace.Event) {
	switch e.Kind { //nolint:exhaustive // the others change nothing that checkers share
	case trace.Committed:
		s.record(e)
	case trace.Served:
		m := s.memberOf(e.Group, e.Slot)
		m.servedAt = s.index
		if !slices.Contains(m.serving, e.Boot) {
			m.serving = append(m.serving, e.Boot)
		}
		m.hung = false
		if len(m.serving) == 1 {
			m.ever, m.changed = true, s.now
		}
		m.away = m.away && m.takenAway()
	case trace.Stopped:
		m := s.member(e.Slot)
		before := len(m.serving)
		m.serving = slices.DeleteFunc(m.serving, func(boot string) bool { return boot == e.Boot || e.Boot == "" })
		if before > 0 && len(m.serving) == 0 {
			m.changed = s.now
		}
	case trace.Muted:
		m := s.memberOf(e.Group, e.Slot)
		m.muted, m.mutedAt = true, s.now
	case trace.Heard:
		m := s.memberOf(e.Group, e.Slot)
		m.muted, m.heardAt = false, s.now
	case trace.Faulted:
		s.hides = s.hides || strings.HasPrefix(e.Text, "hide ")
		if words := strings.Fields(e.Text); len(words) > 1 && s.members[words[1]] != nil {
			s.members[words[1]].hangsBy(words[0])
		}
	case trace.Called:
		s.unsure[e.Call.ID] = true
	case trace.Answered:
		s.unsure[e.Call.ID] = e.Outcome == trace.Unknown
	case trace.Effected:
		s.memberOf(e.Group, e.Slot).hung = false // its CVM boots
		if e.Call.Verb == cloud.Create && s.unsure[e.Call.ID] && s.hides {
			s.unseen[e.Call.VMUUID] = e.Group
		}
	case trace.Healed:
		s.healed, s.healedAt = true, s.now
	case trace.Judged:
		s.memberOf(e.Group, e.Slot).goesBy = e.Text
	case trace.Led:
		g := s.group(e.Group)
		if g.leader != e.Slot {
			g.leader, g.ledAt = e.Slot, s.now
		}
	case trace.Listed:
		g := s.group(e.Group)
		if len(g.learners) == 0 {
			g.learnAt = s.now
		}
		g.set, g.voters, g.learners = true, e.Voters, e.Learners
	}
}

// hangsBy updates the member for a fault: a reboot ends a hang.
func (m *member) hangsBy(fault string) {
	switch fault {
	case "hang":
		m.hung = true
	case "reboot", "halt", "lose":
		m.hung = false
	}
}

// record updates the state with a write.
func (s *state) record(e trace.Event) {
	sets := switchesOf(e)
	if e.Excluded != nil { // it replaces the exclusion before it
		for _, what := range (group.Exclusion{Rollout: true, Healing: true}).Words() {
			if name := excludedFrom(what, e.Slot); !slices.Contains(sets, name) && s.switched(name) {
				delete(s.switches, name)
				s.cleared[name] = s.now
			}
		}
	}
	for _, name := range sets {
		if _, set := s.switches[name]; e.Deleted {
			delete(s.switches, name)
			s.cleared[name] = s.now
		} else if !set {
			s.switches[name] = s.now
		}
	}
	s.storeIndex = max(s.storeIndex, e.Index)
	if name, is := s.decides(e); is {
		s.decidedAt[name] = s.index
	}
	switch {
	case e.Spec != nil:
		g := s.group(e.Spec.Name)
		g.specs = append(g.specs, dated{s.now, ifKept(e, e.Spec)})
		if e.Deleted {
			*g = groupState{specs: g.specs} // with the disks of its members
		}
	case e.Operation != nil:
		s.recordOperation(e, e.Operation)
	case e.Rollout != nil:
		if before := s.rollouts[e.Rollout.ID]; e.Rollout.Verdict != nil && (before == nil || before.Verdict == nil) {
			s.failedFrom[e.Rollout.ID] = s.now
			s.failedHung[e.Rollout.ID] = s.failedByHanging(*e.Rollout.Verdict)
		}
		s.rollouts[e.Rollout.ID] = e.Rollout
		if r := e.Rollout; r.State == operation.Complete {
			s.stable[r.Group] = r.To
		}
	case e.GivenUp != nil:
		all := s.givenUp[e.Group]
		if n := len(all); n > 0 && all[n-1].until == 0 {
			all[n-1].until = s.now
		}
		if !e.Deleted {
			all = append(all, givenUp{slots: e.GivenUp.Slots})
		}
		s.givenUp[e.Group] = all
	case e.Ending != nil:
		if e.Deleted {
			s.spared[e.Group] = s.now
		} else {
			s.endings[e.Group] = e.Ending
		}
	case e.Asked != nil:
		s.asked[e.Asked.ID] = e.Asked
	case e.Policy != nil:
		s.memberOf(e.Policy.Group, e.Policy.Slot).policy = ifKept(e, e.Policy)
	case e.Admission != nil:
		m := s.memberOf(e.Admission.Group, e.Admission.Slot)
		m.admission = ifKept(e, e.Admission)
		if !e.Deleted {
			m.ran, m.generation = e.Admission.Revision, max(m.generation, e.Admission.Generation)
		}
	case e.Bound != nil:
		m := s.memberOf(e.Bound.Group, e.Bound.Slot)
		if m.bound == nil || m.bound.VMUUID != e.Bound.VMUUID {
			m.boundAt = s.now
		}
		if had := m.bound != nil && m.bound.VMUUID != ""; !had && !m.ever {
			m.changed = s.now
		}
		m.bound = ifKept(e, e.Bound)
		if e.Deleted {
			m.ever, m.away, m.ran, m.generation = false, false, "", 0 // the Slot no longer exists
		}
	}
}

// failedByHanging reports that a step's time was over after its Boot, and that the workload hung
// then.
func (s *state) failedByHanging(v operation.Verdict) bool {
	late := v.Cause == operation.CauseDeadline && (v.Phase == operation.Joining || v.Phase == operation.Settling)
	return late && v.Slot != "" && s.member(v.Slot).hung
}

// ifKept is the record, or nil if the event deleted it.
func ifKept[T any](e trace.Event, record *T) *T {
	if e.Deleted {
		return nil
	}
	return record
}

// countRefusals updates the refusals for the end of op.
func (s *state) countRefusals(op *operation.Operation) {
	of := s.refusals[op.Rollout]
	if of == nil {
		of = map[string]int{}
		s.refusals[op.Rollout] = of
	}
	if of[op.Slot]++; op.Phase != operation.Failed || op.Failure.Cause != operation.CauseRefused {
		of[op.Slot] = 0
	}
}

func (s *state) recordOperation(e trace.Event, op *operation.Operation) {
	m := s.memberOf(op.Group, op.Slot)
	before := s.operations[op.ID]
	if op.Kind == operation.Delete && op.Set.Leaves && (before == nil || !before.Set.Leaves) {
		s.left[op.CVM.VMUUID] = s.keepsDisk(op) == "" // judged when the member is ordered to leave
	}
	if before == nil {
		s.recordedAt[op.ID] = s.index
	}
	if op.Phase == operation.Failed && (before == nil || before.Phase != operation.Failed) {
		s.failedAt[op.ID] = s.index
	}
	if op.Phase.Ended() && (before == nil || !before.Phase.Ended()) {
		s.countRefusals(op)
	}
	if before == nil && op.Call.Number > 0 || before != nil && before.Call.Number != op.Call.Number {
		s.caller[op.ID] = e.By
	}
	at := slices.IndexFunc(m.open, func(o *operation.Operation) bool { return o.ID == op.ID })
	isOpen := !e.Deleted && !op.Phase.Ended()
	switch {
	case isOpen && at >= 0:
		m.open[at] = op
	case isOpen:
		m.open = append(m.open, op)
	case at >= 0:
		m.open = slices.Delete(m.open, at, at+1)
	}
	if e.Deleted {
		delete(s.operations, op.ID)
	} else {
		s.operations[op.ID] = op
	}
	if m.takenAway() && !m.away {
		m.takenAt = s.index
	}
	m.away = m.takenAway() || m.away && !m.gaveBack(before, op)
}

// gaveBack reports that m is no longer taken away. Either m serves, or it served again and was lost
// for another reason since. Or op ended after it drained m, without any other effect.
func (m *member) gaveBack(before, op *operation.Operation) bool {
	drainedOnly := before != nil && takesAway(before) && op.Phase.Ended() && op.Entered[operation.Acting].IsZero()
	return m.serves() || m.servedAt > m.takenAt || drainedOnly
}

func (s *state) group(name string) *groupState {
	if s.groups[name] == nil {
		s.groups[name] = &groupState{}
	}
	return s.groups[name]
}

func (s *state) member(slot string) *member {
	if s.members[slot] == nil {
		s.members[slot] = &member{slot: slot}
	}
	return s.members[slot]
}

func (s *state) memberOf(group, slot string) *member {
	m := s.member(slot)
	m.group = group
	return m
}

// slots are the known members, in order.
func (s *state) slots() []*member {
	var out []*member
	for _, slot := range sortedNames(s.members) {
		out = append(out, s.members[slot])
	}
	return out
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (m *member) serves() bool { return len(m.serving) > 0 }

// takenAway: an open Operation takes the member away.
func (m *member) takenAway() bool {
	return slices.ContainsFunc(m.open, func(op *operation.Operation) bool { return takesAway(op) })
}

// between: the member serves, and its step is between two parts of a change.
func (m *member) between() bool {
	waits := func(op *operation.Operation) bool { return op.Phase == operation.Drained && len(op.Call.Applied) > 0 }
	return m.serves() && !slices.ContainsFunc(m.open, func(op *operation.Operation) bool { return takesAway(op) && !waits(op) })
}

// acting is the open Operation whose call may be made.
func (m *member) acting() *operation.Operation {
	for _, op := range m.open {
		if op.Phase == operation.Acting {
			return op
		}
	}
	return nil
}

// takesAway reports that op is in a phase in which its member must not be counted on. A Create
// takes no member away, and neither does a Refresh, which stops nothing. A Refresh with a call no
// longer is one. Without a drain the call itself is the first such phase.
func takesAway(op *operation.Operation) bool {
	if op.Way.Refreshes() && op.Call.Part == "" {
		return false
	}
	switch op.Phase {
	case operation.Draining, operation.Drained:
		return op.Kind != operation.Create && !op.Way.SkipDrain
	case operation.Acting, operation.Booting, operation.Joining, operation.Settling:
		return op.Kind != operation.Create
	case operation.Done, operation.Aborted, operation.Failed, "":
	}
	return false
}

// disrupts is the Operation that starts to take its member away with e; nil: e is another kind of
// event.
func (s *state) disrupts(e trace.Event) *operation.Operation {
	op := e.Operation
	if e.Kind != trace.Committed || e.Deleted || op == nil || !takesAway(op) {
		return nil
	}
	// Between two parts of a change it is under way, in any phase.
	if before := s.operations[op.ID]; before != nil && (takesAway(before) || len(before.Call.Applied) > 0) {
		return nil
	}
	return op
}

// takes is the Operation that takes its member away with e. It starts to do so, or it proceeds to
// its call, before which all conditions are checked again after the drain (R50). nil: e is another
// kind of event.
func (s *state) takes(e trace.Event) *operation.Operation {
	if op := s.disrupts(e); op != nil {
		return op
	}
	if op := s.acts(e); op != nil && takesAway(op) {
		return op
	}
	return nil
}

// acts is the Operation that enters ACTING with e; nil: e is another kind of event.
func (s *state) acts(e trace.Event) *operation.Operation {
	op := e.Operation
	if e.Kind != trace.Committed || e.Deleted || op == nil || op.Phase != operation.Acting {
		return nil
	}
	if before := s.operations[op.ID]; before != nil && before.Phase == operation.Acting {
		return nil
	}
	return op
}

// down reports that the Slot has or had a CVM, and has not served for longer than EvidenceAge. A
// Slot that was never filled is being provided.
func (s *state) down(slot string) bool {
	m := s.member(slot)
	filled := m.ever || m.bound != nil && (m.bound.VMUUID != "" || len(m.bound.Lineage) > 0)
	return filled && !m.serves() && s.now-m.changed > EvidenceAge
}

// mayBeDown reports that the Slot does not serve, or did not so recently that a coordinator may
// still take it for down.
func (s *state) mayBeDown(slot string) bool {
	m := s.member(slot)
	return !m.serves() || s.now-m.changed <= EvidenceAge
}

// specsOf are the specs of a group that were in force within the age of evidence, newest first: a
// decision may rest on any of them. A nil spec means that the group did not exist.
func (s *state) specsOf(name string) []*group.Spec {
	var out []*group.Spec
	for _, d := range slices.Backward(s.group(name).specs) {
		out = append(out, d.spec)
		if s.now-d.from > EvidenceAge {
			break
		}
	}
	return out
}

// spec in force; nil: the group does not exist.
func (s *state) spec(name string) *group.Spec {
	if all := s.group(name).specs; len(all) > 0 {
		return all[len(all)-1].spec
	}
	return nil
}

// heartbeat is the highest age of an agent's last report when the agent falls silent.
const heartbeat = 5 * time.Second

// lostAfter is the silence of an agent after which its member counts as down (R31), counted from
// its last report.
var lostAfter = rollout.Timing{}.OrDefault().LostAfter - heartbeat

// silent reports that the Slot's agent has been unheard for so long that its member counts as down,
// whether or not it serves.
func (s *state) silent(slot string) bool {
	m := s.member(slot)
	return m.muted && s.now-m.mutedAt >= lostAfter
}

// mayServe reports that the Slot serves, or did so recently that it may still count as serving.
func (s *state) mayServe(slot string) bool {
	m := s.member(slot)
	return m.serves() || m.ever && s.now-m.changed <= EvidenceAge
}

// unwanted reports that a spec that a decision may rest on does not want the Slot, or that its
// group is being deleted.
func (s *state) unwanted(groupName, slot string) bool {
	specs := s.specsOf(groupName)
	if len(specs) == 0 || s.ending(groupName) {
		return true
	}
	return slices.ContainsFunc(specs, func(sp *group.Spec) bool { return sp == nil || !slices.Contains(sp.Members(), slot) })
}

// ending: an operator requested the deletion of the group, or withdrew the request a moment ago.
func (s *state) ending(groupName string) bool {
	spared, was := s.spared[groupName]
	return s.switched("control/delete/"+groupName) || was && s.now-spared <= EvidenceAge
}

// switched reports that an operator's switch is set. knownSince returns since when, once every
// coordinator must know it.
func (s *state) switched(name string) bool {
	_, set := s.switches[name]
	return set
}

func (s *state) knownSince(name string) (since time.Duration, known bool) {
	since, set := s.switches[name]
	return since, set && s.now-since > EvidenceAge
}

// switchKey is the name of an operator's switch: the key after the store's prefix.
func switchKey(key string) (name string, is bool) {
	at := strings.Index(key, "control/")
	if at < 0 || at > 0 && key[at-1] != '/' {
		return "", false
	}
	return key[at:], true
}

// decides reports that an operator decided something about a group with e. Its spec was written or
// came into force, or a request names the group, one of its Slots or Operations. A switch that
// stops the group, or one member, decides nothing about a failure. Neither does the leader's
// removal of an answered request.
func (s *state) decides(e trace.Event) (name string, is bool) {
	switch q := e.Asked; {
	case e.Kind != trace.Committed:
		return "", false
	case e.Spec != nil:
		return e.Spec.Name, true
	case q != nil && !e.Deleted:
		if op := s.operations[q.Operation]; op != nil {
			return op.Group, true
		}
		return cmp.Or(q.Group, s.member(q.Slot).group), true
	}
	return "", false
}

// inScope reports that a rollout moves the Slot: neither the partition nor the Slot's own setting
// excludes it.
func inScope(sp *group.Spec, slot string) bool {
	_, ordinal, err := group.ParseSlot(slot)
	return err == nil && sp.HasOrdinal(ordinal) && sp.KeptBy(ordinal, group.Exclusion{}) == ""
}
