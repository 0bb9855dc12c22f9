package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/coordinator/simulated/cloud"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

type cvm = cloud.CVM[*member]

// member is the content of a CVM: an agent that obeys at once, and a workload with one leader.
// Guarded by the world's mu.
type member struct {
	*cvm
	w    *world
	slot string
	// boot names its Boot while it runs, since bootAt; admitted: a coordinator admitted it, at
	// epoch.
	boot     string
	bootAt   time.Time
	admitted bool
	epoch    uint64
	// The newest desired state that it received, and the Operations that it drained for.
	desired  *controlv1.Desired
	drained  map[string]bool
	sequence uint64
	// seenTerm and seenState are on its disk.
	seenTerm, seenState uint64
}

func (w *world) guest(c *cvm) *member {
	return &member{cvm: c, w: w, slot: strings.TrimPrefix(c.Name, cluster+"-")}
}

func (w *world) membersLocked() (out []*member) {
	for _, c := range w.cloud.AllLocked() {
		out = append(out, c.Guest)
	}
	return out
}

// memberLocked is the member in the CVM of the Slot, which must exist.
func (w *world) memberLocked(slot string) *member {
	return w.cloud.NamedLocked(cluster + "-" + slot).Guest
}

func (m *member) Boots() {
	m.w.bootings++
	m.boot, m.bootAt, m.drained, m.sequence = fmt.Sprintf("boot-%d", m.w.bootings), time.Now(), map[string]bool{}, 0
}

func (m *member) Ends(string) {
	m.boot = ""
	m.leave()
}

// leave: cut off from the others, the member cannot lead.
func (m *member) leave() {
	m.admitted, m.epoch, m.desired = false, 0, nil
	if m.w.leader == m.slot {
		m.w.lead("")
	}
}

func (w *world) lead(slot string) {
	w.leader = slot
	w.epoch++
}

// members runs the members in the CVMs until ctx ends.
func (w *world) members(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		all, coordinators := w.membersLocked(), w.aliveLocked()
		w.mu.Unlock()
		for _, m := range all {
			m.attest(ctx, coordinators)
			m.listen(ctx, coordinators)
		}
		w.mu.Lock()
		down := 0
		for _, m := range all {
			if !m.admitted {
				down++
			}
		}
		if len(all) == 3 && w.leader != "" {
			w.away = max(w.away, down)
		}
		w.mu.Unlock()
		tick(ctx, 250*time.Millisecond)
	}
}

// attest requests admission, and again after the policy's epoch grew.
func (m *member) attest(ctx context.Context, coordinators []*life) {
	m.w.mu.Lock()
	epoch := m.desired.GetPolicyEpoch()
	asks := m.boot != "" && !m.w.cutOff[m.slot] && (!m.admitted || epoch > m.epoch)
	m.w.proofs++
	e := simulated.Evidence{
		Slot: m.slot, Boot: m.boot, Serial: m.w.proofs, InstanceID: m.InstanceID, AppID: m.AppID, ComposeHash: m.ComposeHash, OSImage: m.OSImage, Epoch: epoch,
	}
	m.w.mu.Unlock()
	for _, c := range coordinators {
		if !asks {
			return
		}
		in, err := c.Admit(ctx, e)
		m.w.mu.Lock()
		if in && err == nil && m.boot == e.Boot {
			m.admitted, m.epoch, asks = true, epoch, false
		}
		m.w.mu.Unlock()
	}
}

// listen receives the orders, carries them out and reports.
func (m *member) listen(ctx context.Context, coordinators []*life) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if m.boot == "" || len(coordinators) == 0 || m.w.cutOff[m.slot] {
		return
	}
	ended := 0
	for _, c := range coordinators {
		desired, err := c.GetDesired(ctx, m.slot, m.boot, &controlv1.GetDesiredRequest{KnownVersion: m.desired.GetVersion(), KnownTerm: m.seenTerm})
		switch d := desired.GetDesired(); {
		case status.Code(err) == codes.FailedPrecondition:
			ended++
		case err != nil:
		case d.GetTerm() == m.seenTerm && d.GetVersion() == m.desired.GetVersion():
			m.seenState = max(m.seenState, d.GetState())
		case d.GetTerm() > m.seenTerm || d.GetTerm() == m.seenTerm && d.GetVersion() > m.desired.GetVersion():
			m.desired, m.seenTerm, m.seenState = d, d.GetTerm(), max(m.seenState, d.GetState())
		}
	}
	if ended == len(coordinators) {
		m.leave() // another Boot holds the Slot, or none: the member attests again
	}
	if !m.admitted || m.desired == nil {
		return
	}
	if m.w.leader == "" && m.votes() {
		m.w.lead(m.slot)
	}
	report := m.report(m.obey(m.desired.GetOperation()))
	for _, c := range coordinators {
		_, _ = c.Report(ctx, m.slot, m.boot, &controlv1.ReportRequest{Report: report}) // the coordinator repeats the order
	}
}

// votes: only the group "pg" has a leader.
func (m *member) votes() bool { return strings.HasPrefix(m.slot, "pg-") }

// obey carries out the order: a member that leads hands over to the first candidate.
func (m *member) obey(order *controlv1.OperationOrder) []*controlv1.StepResult {
	if order == nil {
		return nil
	}
	id := order.GetOperationId()
	if order.GetVerb() == controlv1.Verb_VERB_DRAIN && m.w.leader == m.slot && len(order.GetTransferCandidates()) > 0 {
		m.w.lead(order.GetTransferCandidates()[0])
		m.w.calls = append(m.w.calls, "transfer "+m.slot+" to "+m.w.leader)
		m.drained[id] = true
	}
	step := &controlv1.StepResult{OperationId: id, Verb: order.GetVerb(), Attempt: order.GetAttempt(), State: controlv1.StepState_STEP_STATE_DONE}
	if m.drained[id] {
		step.Transferred, step.NewLeader = true, m.w.leader
	}
	return []*controlv1.StepResult{step}
}

func (m *member) report(steps []*controlv1.StepResult) *controlv1.Report {
	m.sequence++
	role, caught := controlv1.Role_ROLE_FOLLOWER, true
	if m.w.leader == m.slot {
		role = controlv1.Role_ROLE_LEADER
	}
	var lag *int64
	if !m.w.behind.IsZero() && m.bootAt.After(m.w.behind) {
		bytes := int64(m.sequence) * 704
		caught, lag = false, &bytes
	}
	leader := m.w.leader
	if !m.votes() {
		role, leader = controlv1.Role_ROLE_NONE, ""
	}
	term := m.seenTerm
	if said, lies := m.w.saysTerm[m.slot]; lies {
		term = said
	}
	return &controlv1.Report{
		Sequence: m.sequence, Term: term, State: m.seenState, MemberKnown: true, Steps: steps,
		HealthyFor: durationpb.New(time.Since(m.bootAt)), BootAt: timestamppb.New(m.bootAt),
		Member: &controlv1.MemberView{Role: role, Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true, CaughtUp: &caught, Leader: leader, Epoch: m.w.epoch, MayDisrupt: true, LagBytes: lag},
	}
}
