package operation

import (
	"cmp"
	"fmt"
	"time"

	"cadre.dev/core/group"
)

// resolve ends an Operation by an operator's word, where nothing else can: a call whose
// effect is undecided, or a wait for what will not come. Done means that the effect is
// there: what follows it is awaited as always, so that nobody can talk a Boot in.
// Failed means that it is not there and will not come.
func (op Operation) resolve(f Facts, now time.Time) (Operation, []Effect, bool) {
	r := f.Resolved
	if r == nil {
		return op, nil, false
	}
	if op.Request.ResolvedBy == r.ID && r.ID != "" {
		return op, nil, false // heard already
	}
	op.Request.ResolvedBy = r.ID
	word := fmt.Sprintf("resolved as %s by %s: %s", r.As, cmp.Or(r.By, "an operator"), cmp.Or(r.Reason, "no reason given"))
	switch {
	case r.As == Done && op.Phase == Acting:
		next := op.accepted(f, now)
		if next.Phase == Acting {
			// More parts follow; the word is about this one.
			next = next.goOn(now)
		}
		return next.because(word), nil, true
	case r.As == Done:
		// Nothing to say yes to: the platform's call is not what it waits for.
		return op.because("not resolved as done: no platform call of it is undecided"), nil, true
	}
	return op.end(Failed, CauseResolved, word, now), op.cancelDrain(), true
}

// CameToNothing reports that op ended without any effect on its CVM, nor on the workload's set.
func (op Operation) CameToNothing() bool { return !op.Set.Leaves && op.MadeNothing() }

// MadeNothing reports that op ended without any effect on its CVM. It may have taken the member out
// of its set, and waited in vain for that.
func (op Operation) MadeNothing() bool {
	if len(op.Call.Applied) > 0 {
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

// OwnEnvAfter names the values of env of its own that the Slot's CVM was given last, where that
// was given before op.
func (op Operation) OwnEnvAfter(given string) string {
	if op.Call.Has(PartCompose) || op.Call.Has(PartCreate) {
		return op.Call.OwnEnv
	}
	return given
}

// HealsAfter is what was done to heal a Slot, as it was counted when op began, once op ended; op is as it is
// recorded with it, once. The one replacement of a Slot is spent by that which was made, not by a creation that
// was refused, called off or never came to be: another one may be taken. Nor is that one of the restarts. Of what runs another
// Revision nothing is counted.
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

// failedDown: a restart of what was down was made, and nothing came of it. One that was ready for a moment
// ended an outage.
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

// AssignedAfter is what a Slot is assigned that was assigned something before op ended.
// Where op came to nothing the CVM runs on as it was, and the record must say so, or its
// silence would be taken for a Boot that never came. A Boot that proved To meanwhile runs that.
func (op Operation) AssignedAfter(assigned string) string {
	if (op.CameToNothing() || op.unproven()) && !op.Failure.Arrived && op.To != "" && op.From != "" && assigned == op.To {
		return op.From
	}
	return assigned
}

// WasAvailableAfter is the Revision at which a Slot was available last, where that was was before op
// ended. A step of a rollout is done because its member was available for min_ready: whoever leads next
// may find it broken, and has to know. What is none of the rollout's steps is its arrival when it is seen.
func (op Operation) WasAvailableAfter(was string) string {
	if op.Phase == Done && op.Rollout != "" && op.To != "" && !op.Seen.AvailableSince.IsZero() {
		return op.To
	}
	return was
}
