package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/operation"
)

// These constants bound the retries of a Slot.
const (
	// firstWait is the wait before the second try: an agent reports within that time.
	firstWait = 5 * time.Second
	// maxRefusals bounds how often a certainly refused call is repeated, until an operator decides.
	maxRefusals = 6
)

// holdsOfTries defers a candidate whose last step did not succeed, for any Kind. The wait is 5 s, doubled each time,
// at most 2 min (R37). After maxRefusals refusals the platform is called again only on an operator's request, or for
// another call.
func (w *world) holdsOfTries(c candidate, _ evaluation) []Hold {
	n, refusals, last := c.tries()
	byHand := c.marked || c.actor == operation.ActorOperator
	if n == 0 || byHand && c.kind != operation.Drain {
		return nil
	}
	if refusals >= maxRefusals {
		return []Hold{hold(HoldRefused, "%d times in a row: %s; mend what it says, then: cadre rollout retry %s --reason WHY", refusals, last.Reason, w.spec.Name)}
	}
	until := w.nextTry(last.Times.Ended, n, firstWait, operation.MaxWait)
	if !w.now.Before(until) {
		return nil
	}
	return []Hold{holdUntil(until, HoldBackoff, "%s: %s; tried again in %s", c.m.slot, last.Reason, short(until.Sub(w.now)))}
}

// nextTry returns when an action that ended at a time is tried again, after n tries without success. The wait starts
// at first, doubles each time, and is at most most.
func (w *world) nextTry(ended time.Time, n int, first, most time.Duration) time.Time {
	until, last := ended.Add(min(first<<min(n-1, 10), most)), w.now.Add(most)
	if until.After(last) {
		return last // the try ended in the future: another leader's clock was ahead
	}
	return until
}

// holdsOfPrecondition holds a step whose call cannot be made, before its member is drained.
func (w *world) holdsOfPrecondition(c candidate, _ evaluation) []Hold {
	if reason := w.refusedStep(c.m.slot, c.m.ordinal, c.to); reason != "" {
		return []Hold{hold(HoldPrecondition, "%s", reason)}
	}
	return nil
}

// updateRefused: no update of m to its wanted Revision begins until an operator decides. The platform would refuse the
// update, or has refused it maxRefusals times.
func (w *world) updateRefused(m *member) bool {
	_, refusals, _ := candidate{m: m, kind: operation.Update, to: m.want.revision}.tries()
	return w.refusedStep(m.slot, m.ordinal, m.want.revision) != "" || refusals >= maxRefusals
}

// tries returns the newest run of failed steps of c's Slot with c's purpose.
func (c candidate) tries() (n, refusals int, last *operation.Operation) {
	past := c.m.past
	if c.kind == operation.Drain || c.kind == operation.Stop {
		past = c.m.drains
	}
	for i := len(past) - 1; i >= 0; i-- {
		op := &past[i]
		if op.Kind != c.kind || op.To != c.to && c.kind != operation.Delete || !cameToNothing(op) {
			break
		}
		if last == nil {
			last = op
		}
		n++
		// A creation that was accepted and never showed counts as refused: each creation may still have made a CVM.
		if op.Failure.Cause == operation.CauseRefused || op.Kind == operation.Create && op.Failure.Cause == operation.CauseDeadline {
			refusals++
		}
	}
	return n, refusals, last
}

// cameToNothing: the member, a safety check or the platform called op off, or the platform refused it. The end of an
// op by a pause or a new spec does not count (R80).
func cameToNothing(op *operation.Operation) bool {
	called := []operation.Cause{operation.CauseHook, operation.CauseDrainDeadline, operation.CauseUnsafe, operation.CausePrecondition}
	return op.Phase == operation.Failed || op.Phase == operation.Aborted && slices.Contains(called, op.Failure.Cause)
}

// aborts counts the newest run of steps of m that its hooks or its agent aborted. A platform refusal meanwhile is no
// evidence about m (R74).
func (m *member) aborts() (n int, last *operation.Operation) {
	for i := len(m.past) - 1; i >= 0; i-- {
		op := &m.past[i]
		switch {
		case op.Phase != operation.Aborted || !cameToNothing(op):
			return n, last
		case op.Failure.Cause == operation.CausePrecondition:
			continue
		case last == nil:
			last = op
		}
		n++
	}
	return n, last
}

// attempts counts the Operations of m towards a Revision in this rollout.
func (m *member) attempts(to string) int {
	n := 0
	for _, op := range m.past {
		if op.To == to {
			n++
		}
	}
	return n
}
