package operation

import (
	"cmp"
	"fmt"
	"time"

	"cadre.dev/core/group"
)

// resolve ends an Operation by an operator's decision. It is for a call whose effect is undecided, or a wait for an
// event that will not come. Done means that the effect exists: the Operation still waits for the next event, so an
// operator cannot admit a Boot. Failed means that the effect is absent for good.
func (op Operation) resolve(f Facts, now time.Time) (Operation, []Effect, bool) {
	r := f.Resolved
	if r == nil {
		return op, nil, false
	}
	if op.Request.ResolvedBy == r.ID && r.ID != "" {
		return op, nil, false // already recorded
	}
	op.Request.ResolvedBy = r.ID
	word := fmt.Sprintf("resolved as %s by %s: %s", r.As, cmp.Or(r.By, "an operator"), cmp.Or(r.Reason, "no reason given"))
	switch {
	case r.As == Done && op.Phase == Acting:
		next := op.accepted(f, now)
		if next.Phase == Acting {
			// More parts follow; the decision concerns this part.
			next = next.goOn(now)
		}
		return next.because(word), nil, true
	case r.As == Done:
		// Every platform call is decided, so the decision has no effect.
		return op.because("not resolved as done: no platform call of it is undecided"), nil, true
	}
	return op.end(Failed, CauseResolved, word, now), op.cancelDrain(), true
}

// CameToNothing reports that op ended without any effect on its CVM or on the workload's set.
func (op Operation) CameToNothing() bool { return !op.Set.Leaves && op.MadeNothing() }

// MadeNothing reports that op ended without any effect on its CVM. op may have removed the member from its set and
// waited in vain.
func (op Operation) MadeNothing() bool {
	if op.Call.changes() || op.Kind == Restart && len(op.Call.Applied) > 0 {
		return false
	}
	if op.Phase != Failed {
		return op.Phase == Aborted
	}
	switch op.Failure.Cause {
	case CauseRefused, CauseResolved:
		return true
	case CauseDeadline:
		return op.Entered[Booting].IsZero() // no call of it had an effect
	default:
		return false
	}
}

// OwnEnvAfter names the Slot's own env values that its CVM received last. given is the name before op.
func (op Operation) OwnEnvAfter(given string) string {
	if op.Call.Has(PartCompose) || op.Call.Has(PartCreate) {
		return op.Call.OwnEnv
	}
	return given
}

// HealsAfter returns the healing counters of a Slot after op ended; h holds the counters at the start of op. op is
// written once with the result. Only a replacement that was made uses up the Slot's one replacement. A replacement
// without effect also gives its attempt back. Reaching another Revision clears the counters.
func (op Operation) HealsAfter(h *group.Heals) *group.Heals {
	if op.Kind == Update && op.Phase == Done && op.Way.Mode == ModeBoot {
		return nil
	}
	if h == nil || op.Actor != ActorHealing {
		return h
	}
	after := *h
	switch {
	case op.Kind == Replace && h.Replacements > 0 && op.MadeNothing():
		after.Attempts, after.Replacements = max(h.Attempts-1, 0), h.Replacements-1
	case op.failedDown():
		after.FailedDown++
	default:
		return h
	}
	return &after
}

// failedDown: a restart of a down member was made and had no success. A member that was ready for a moment ended the
// outage.
func (op Operation) failedDown() bool {
	if op.Kind != Restart || op.Phase != Failed || op.Call.Number == 0 {
		return false
	}
	switch op.Failure.Cause {
	case CauseDeadline, CauseBootError, CauseTask:
		return op.Before.Down && !op.Before.Shared && op.Entered[Settling].IsZero()
	default:
		return false
	}
}

// AssignedAfter returns the Revision that a Slot is assigned after op ended, where assigned was its Revision before.
// If op had no effect, the CVM runs the old Revision, and the record must show that. Otherwise a missing report would
// look like a Boot that never came. A Boot that proved To meanwhile runs To.
func (op Operation) AssignedAfter(assigned string) string {
	if (op.CameToNothing() || op.unproven()) && !op.Failure.Arrived && op.To != "" && op.From != "" && assigned == op.To {
		return op.From
	}
	return assigned
}

// WasAvailableAfter returns the Revision at which a Slot was last available, where was is that Revision before op
// ended. A rollout's step is done because its member was available for min_ready. A later leader may find the member
// broken and needs this fact. For other steps, the arrival counts when it is seen.
func (op Operation) WasAvailableAfter(was string) string {
	if op.Phase == Done && op.Rollout != "" && op.To != "" && !op.Seen.AvailableSince.IsZero() {
		return op.To
	}
	return was
}
