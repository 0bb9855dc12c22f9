package rollout

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// condition is the verdict of all evidence about one member. The evidence is the platform's listing, the admission
// and its refusals, the agent's report and the reports of the other members. The planner computes the condition
// once per pass, and every rule uses it. The most certain loss comes first, which is the order of repairs (R31).
type condition int

const (
	// notBooted: no Boot of the member runs, by the platform's listing or by attestation.
	notBooted condition = iota
	// processDown: the agent reports, and the process has refused connections for as long as healing requires.
	processDown
	// impaired: the member runs and has long been unhealthy, behind or without an answer. It may still serve.
	impaired
	// lost: the agent has been silent for lost_after. The member may still serve.
	lost
	// well: the member is ready, or no evidence shows a fault of its own (R10).
	well
)

// unwellFor is how long a member may have a transient fault before the planner takes it for the member's own fault.
// Within this time a slow answer arrives, the supervisor restarts the process, and the other members elect a
// leader, which may need this member's vote. It is also the interval of repairs while many members are unhealthy:
// the effect of the first repair shows within it.
const unwellFor = time.Minute

// certain reports that a member in this condition certainly serves nothing.
func (c condition) certain() bool { return c == notBooted || c == processDown }

// mayServe reports that a member in this condition is broken, and runs as far as is known.
func (c condition) mayServe() bool { return c == impaired || c == lost }

// answers reports that the driver has reported the state of the member. The first reports of an agent that has just
// started to ask its driver are no evidence about the member (R10).
func (m *member) answers(spec group.Spec) bool { return group.HasDriver(spec) && m.report.MemberKnown }

// unanswered reports that m's agent is in contact, and that m's process refused its driver's connection or gave no
// answer. Neither proves at once that the process is down: a slow answer of a healthy process looks the same (R10).
func (w *world) unanswered(m *member) bool {
	return m.report != nil && m.answers(w.spec) && !m.report.alive()
}

// bootedElsewhere reports that, since the last admission, another Boot of the Slot's own instance proved a Revision
// that the Slot may not run. The coordinator returns the code only after genuine evidence of the bound instance.
// The result is therefore a fact about the CVM.
func (m *member) bootedElsewhere() bool {
	r, a := m.seen.Refusal, m.seen.Admission
	return r != nil && (r.Code == policy.CodeRevisionNotAllowed || r.Code == policy.CodeRevisionBelowFloor) && a != nil && r.At.After(a.AdmittedAt)
}

// merelyLeaderless reports that the missing leader of its cluster is the only fault of m, which runs (R34). Such a
// member was available at the Revision that it runs, or ready in its present Boot. Any other member gets the time
// of one election, and counts as broken after it.
func (w *world) merelyLeaderless(m *member) bool {
	if !w.view.roles || w.view.leader != "" || len(w.members) <= 1 {
		return false
	}
	a := m.seen.Admission
	elects := a != nil && m.record.WasAvailableAt != "" && w.now.Sub(a.AdmittedAt) < unwellFor
	ready := a != nil && a.BootID != "" && m.record.AvailableBoot == a.BootID
	return elects || ready || m.record.WasAvailableAt == m.observed
}

// lostAt is the time at which the silence of m makes it broken; zero when m is not silent.
func (w *world) lostAt(m *member) time.Time {
	if m.report != nil || m.record.UnavailableSince.IsZero() {
		return time.Time{}
	}
	if m.request != nil || m.open != nil && m.open.Request.ID != "" {
		return m.record.UnavailableSince.Add(w.t.LostAfter) // the operator who names the Slot has seen it (R145)
	}
	return later(m.record.UnavailableSince, m.record.SilenceFrom).Add(w.t.LostAfter)
}

// provenAt reports that m was available at a Revision, or that its step to the Revision succeeded without
// availability, when other steps restored the quorum. No further step of the rollout concerns m then.
func (m *member) provenAt(revision string) bool {
	last := m.last()
	stepped := last != nil && last.Phase == operation.Done && (last.Kind == operation.Update || last.Kind == operation.Create)
	return m.record.WasAvailableAt == revision || stepped && last.To == revision
}
