package rollout

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
)

// condition is what all evidence together says of a member by itself: the platform's listing, the admission and its
// refusals, the agent's report and the words of the other members. It is worked out once a pass, and every rule goes
// by it. The most certain loss comes first, which is the order in which members are repaired (R31).
type condition int

const (
	// notBooted: no Boot of it runs, by the platform's word or by attestation.
	notBooted condition = iota
	// processDown: its agent speaks, and its process refused connections for as long as healing demands.
	processDown
	// impaired: it runs and is unhealthy, behind or mute for long. It may serve all the same.
	impaired
	// lost: its agent is silent for lost_after. It may serve all the same.
	lost
	// well: it is ready, or no evidence says that it is broken by itself (R10).
	well
)

// unwellFor is how long a member may have what passes by itself before it is taken for the member's own fault. A
// slow answer of its process passes within that, the process's supervisor starts it again, and the others elect
// a leader, which may need this member's vote. It is the interval of repairs while many are ill as well: whether the
// first one helps shows within it.
const unwellFor = time.Minute

func (c condition) String() string {
	return [...]string{"not booted", "process down", "impaired", "lost", "well"}[c]
}

// certain: such a member certainly serves nothing.
func (c condition) certain() bool { return c == notBooted || c == processDown }

// mayServe: such a member is broken, and runs as far as is known.
func (c condition) mayServe() bool { return c == impaired || c == lost }

// conditionOf joins the evidence about m. A running member of a cluster that merely has no leader is well (R34), and
// so is one that is only in a step or counting min_ready. A silent one is well until it was silent for lost_after.
func (w *world) conditionOf(m *member) condition {
	switch {
	case m.ready:
		return well
	case m.vanished() && w.obs.Platform.Known:
		return notBooted // the platform's word, not silence: there is nothing to wait for
	case !m.admitted(), m.shownDown() && !m.heardNow():
		return notBooted // a listing may be of minutes before: one that speaks is not down, whatever it says
	case m.provenElsewhere() && m.report == nil, m.movedAway() && m.open == nil, m.beganMoved():
		return notBooted
	case m.report == nil:
		if at := w.lostAt(m); !at.IsZero() && !w.now.Before(at) {
			return lost
		}
		return well
	case w.processDown(m):
		return processDown
	case w.unanswered(m) && (m.named || !w.mutedLong(m)):
		return well // no answer is no proof: it counts in the budget, and is no reason to touch m
	case w.unanswered(m):
		return impaired // it may serve all the same
	case w.merelyLeaderless(m):
		return well
	case m.report.Health == Unhealthy:
		return impaired
	case m.answers(w.spec) && (!m.report.MemberReady || m.report.CaughtUp != nil && !*m.report.CaughtUp):
		return impaired
	}
	return well
}

// answers: the driver has said how the member is. What an agent reports that has begun to ask it is
// no word about it (R10).
func (m *member) answers(spec group.Spec) bool { return group.HasDriver(spec) && m.report.MemberKnown }

// provenElsewhere: since the last admission another Boot of the Slot's own instance
// proved a Revision that the Slot may not run. The code is given only after genuine
// evidence of the bound instance, so this is a fact about the CVM, not silence.
func (m *member) provenElsewhere() bool {
	r, a := m.seen.Refusal, m.seen.Admission
	return r != nil && (r.Code == policy.CodeRevisionNotAllowed || r.Code == policy.CodeRevisionBelowFloor) && a != nil && r.At.After(a.AdmittedAt)
}

// merelyLeaderless: all that is wrong with m, which runs, is that its cluster has no leader (R34). Such a member was
// available at the Revision that it runs, or ready in its present Boot. Any other member has the time of an election,
// and counts as broken after it.
func (w *world) merelyLeaderless(m *member) bool {
	if !w.view.roles || w.view.leader != "" || len(w.members) <= 1 {
		return false
	}
	a := m.seen.Admission
	elects := a != nil && m.record.WasAvailableAt != "" && w.now.Sub(a.AdmittedAt) < unwellFor
	ready := a != nil && a.BootID != "" && m.record.AvailableBoot == a.BootID
	return elects || ready || m.record.WasAvailableAt == m.observed
}

// lostAt is when the silence of m makes it broken; zero when it is not silent.
func (w *world) lostAt(m *member) time.Time {
	if m.report != nil || m.record.UnavailableSince.IsZero() {
		return time.Time{}
	}
	if m.request != nil || m.open != nil && m.open.Request.ID != "" {
		return m.record.UnavailableSince.Add(w.t.LostAfter) // who names it has looked (R145)
	}
	return later(m.record.UnavailableSince, m.record.SilenceFrom).Add(w.t.LostAfter)
}
