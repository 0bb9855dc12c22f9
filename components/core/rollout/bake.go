package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// A member that arrived and then fails while it bakes is evidence against its Revision (R90, R91). The evidence is a
// statement: of its agent, or of the platform about its boot. Silence proves nothing. The fault has to last, and to be
// the member's own: not a fault that members of other Revisions or groups have as well, not a step that an operator
// asked for, not a lost host.

// bakeAll keeps the last bake. arrived: every Slot is available.
func (w *world) bakeAll(arrived bool) {
	r := w.rollout
	w.setState(operation.BakingState, r.Reason)
	r.PausedAt, r.WaitsSince = time.Time{}, time.Time{}
	w.keepBake(arrived, false)
	until := r.BakeSince.Add(w.spec.UpdatePolicy.Bake.D())
	switch v := w.bakeEvidence(); {
	case v != nil:
		w.fail(v)
	case r.BakeSince.IsZero(): // the group was stopped meanwhile
		r.Reason = "every slot had arrived at the target; the last bake begins when all slots are available"
	case arrived && !w.now.Before(until):
		w.complete("every slot is at the target, available, and has baked")
	case arrived:
		r.Reason = fmt.Sprintf("every slot is at the target; all slots bake until %s, then the revision is stable", w.clockText(until))
	default:
		r.Reason = fmt.Sprintf("every slot had arrived at the target; all slots bake until %s and until %s is available again", w.clockText(until), w.awaited((*member).inScope))
	}
}

// bakeRuns: the Slots of a stage, or all Slots, have arrived and are watched.
func (w *world) bakeRuns() bool { return w.rollout != nil && !w.rollout.BakeSince.IsZero() }

// bakes: the bake of m runs.
func (w *world) bakes(m *member) bool {
	if !w.bakeRuns() || !m.inScope() || m.want.revision != w.target {
		return false
	}
	return w.rollout.State == operation.BakingState || w.openStage().number > 0 && w.openStage().lets(m)
}

// bakeName is the name of the present bake.
func (w *world) bakeName() string {
	if w.rollout.State == operation.BakingState {
		return "the last bake"
	}
	return "the bake of " + w.openStage().name()
}

// bakeEvidence returns the verdict about a member that fails while it bakes; nil: no such member.
func (w *world) bakeEvidence() *operation.Verdict {
	return w.firstVerdict(func(m *member) *operation.Verdict {
		why, from, failing := w.bakeFault(m)
		if !failing || w.now.Before(from) {
			return nil
		}
		return &operation.Verdict{Cause: operation.CauseBake, Slot: m.slot, Reason: fmt.Sprintf("it failed in %s: since %s %s",
			w.bakeName(), m.record.UnavailableSince.UTC().Format(time.TimeOnly+" MST"), why)}
	})
}

// bakeFault returns the fault of m that speaks against its Revision, and from when on it does.
func (w *world) bakeFault(m *member) (why string, from time.Time, failing bool) {
	since := m.record.UnavailableSince
	if m.ready || !w.bakes(m) || m.open != nil || m.drained() || since.IsZero() || !m.provenAt(w.target) || w.outdated(m) {
		return "", from, false
	}
	if why = w.ownFault(m); why == "" || w.sharedFault(m) || w.takenByOperator(m) {
		return "", from, false
	}
	switch a := m.seen.Admission; {
	case len(m.record.Flaps) > mostFlaps:
		return why, since, true // it recovers each time before the fault lasts
	case m.report != nil && m.record.AvailableBoot != a.BootID:
		return why, a.AdmittedAt.Add(group.HealthyDeadline(w.spec)), true // its host restarted it, and it starts
	}
	return why, since.Add(unwellFor), true
}

// ownFault returns the fault of m by the statement of its agent or of the platform; "": none.
func (w *world) ownFault(m *member) string {
	i, r := m.seen.Instance, m.report
	switch {
	case i == nil || len(m.seen.Duplicates) > 0:
	case r == nil && i.BootError != "" && !i.InProgress && !operation.AsksForKeys(i.BootError):
		return "its CVM does not boot: " + i.BootError
	case r == nil, m.record.Membership.Waits(), w.merelyLeaderless(m):
	case w.unanswered(m):
		if !w.vouched(m) {
			return "its workload is down: " + cmp.Or(r.Message, "no word from it")
		}
	case r.Health == Unhealthy:
		return "it is unhealthy: " + cmp.Or(r.HealthReason, "a check fails")
	case m.answers(w.spec) && !r.MemberReady:
		return "its workload is not ready: " + cmp.Or(r.Message, "no word from it")
	}
	return ""
}

// sharedFault: a member that does not run the target became unavailable with m.
func (w *world) sharedFault(m *member) bool {
	with := func(since time.Time) bool {
		return !since.IsZero() && since.Sub(m.record.UnavailableSince).Abs() <= unwellFor
	}
	return slices.ContainsFunc(w.members, func(other *member) bool {
		return other.observed != w.target && other.open == nil && !other.drained() && !other.ready && with(other.record.UnavailableSince)
	}) || slices.ContainsFunc(w.obs.Fleet.Unhealthy, func(other UnhealthyMember) bool {
		return w.find(other.Slot) == nil && with(other.Since)
	})
}

// takenByOperator: m became unavailable in a step that an operator asked for.
func (w *world) takenByOperator(m *member) bool {
	since := m.record.UnavailableSince
	return slices.ContainsFunc(w.rec.Operations, func(op operation.Operation) bool {
		return op.Slot == m.slot && op.Actor == operation.ActorOperator && op.Phase.Ended() && !op.Times.Created.After(since) && !op.Times.Ended.Before(since)
	})
}

// wakeForBake wakes at the end of a bake, and when a fault counts.
func (w *world) wakeForBake(sooner func(time.Time)) {
	switch s := w.openStage(); {
	case w.rollout.State == operation.BakingState:
		sooner(w.rollout.BakeSince.Add(w.spec.UpdatePolicy.Bake.D()))
	case s.number > 0 && !w.rollout.BakeSince.IsZero():
		sooner(w.rollout.BakeSince.Add(s.Bake.D()))
	}
	for _, m := range w.members {
		if _, from, failing := w.bakeFault(m); failing {
			sooner(from)
		}
	}
}
