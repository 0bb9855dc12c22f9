package operation

import (
	"iter"
	"time"
)

// Order is the agent's current work for an Operation of its Slot. The triple (Operation, Verb, Attempt) is its token:
// the leader ignores answers with another token (R81).
type Order struct {
	Operation string
	Verb      Verb
	Attempt   int
	// Deadline is absolute and does not move with retries or takeovers (R79). It is by the clock of the leader that set
	// it. Limit is the distance from then on, by any clock. Zero: no deadline is recorded.
	Deadline       time.Time
	Limit          time.Duration
	ExpectedLeader string
	Candidates     []string
	// WithoutHooks, of VerbDrain: only leadership is handed over.
	WithoutHooks bool
	// Service is the service whose workload VerbRestartService restarts.
	Service string
}

// OrderFor returns the order for one Boot of a Slot from the Slot's Operations, newest first. The newest Operation
// with an order decides. Deleted Operations belong to steps that no agent still needs.
func OrderFor(newest iter.Seq[Operation], boot string) (o Order, ok bool) {
	for op := range newest {
		if !op.asksNothing() {
			return CurrentOrder(op.seenBy(boot))
		}
	}
	return Order{}, false
}

// seenBy returns op as it concerns one Boot. The drained Boot stays drained until it is gone: the order after the
// platform call is for the next Boot. A service restart has no next Boot, unless the CVM boots automatically. A new
// Boot has already started every service, so the agent does not restart the service again.
func (op Operation) seenBy(boot string) Operation {
	if op.Phase != Booting {
		return op
	}
	switch drained := op.Before.Is(boot); {
	case drained && op.Way.Service == "":
		op.Phase = Acting
	case !drained && op.Way.Service != "":
		op.Phase = Joining
	}
	return op
}

// asksNothing reports that op orders nothing from the agent, and left its Boot running and in service. Then the order
// of the previous Operation stands: a return to service that the agent may have missed. A refresh never orders
// anything.
func (op Operation) asksNothing() bool {
	switch {
	case op.Way.Refreshes():
		return true
	case !op.Phase.Ended():
		return false
	}
	return op.Entered[Draining].IsZero() && op.Entered[Acting].IsZero() && op.Entered[Booting].IsZero()
}

// CurrentOrder derives the order from the record alone, so that every coordinator gives the same order. ok is false
// when the agent has nothing to do. A called-off Operation keeps ordering the return to service, also after it ended,
// since the agent may have missed the wake-up.
func CurrentOrder(op Operation) (o Order, ok bool) {
	o = Order{Operation: op.ID, Attempt: op.Attempt}
	switch op.Phase {
	case Draining, Drained, Acting:
		if op.Kind == Create || !op.Way.drains() {
			return Order{}, false
		}
		o.Verb, o.Deadline, o.WithoutHooks = VerbDrain, op.Times.DrainBy, op.withoutHooks()
		if t := op.Transfer; t != nil {
			o.ExpectedLeader, o.Candidates = t.ExpectedLeader, t.Candidates
		}
	case Aborted, Failed:
		// An Operation that ended before its last call was accepted may leave a drained member behind, even if an earlier
		// part was applied. An Operation whose service was not restarted also leaves the drained Boot behind.
		same := op.Way.Service != "" && op.Entered[Joining].IsZero()
		if !op.Entered[Booting].IsZero() && !same || op.Entered[Draining].IsZero() {
			return Order{}, false
		}
		o.Verb = VerbCancelDrain
	case Booting, Joining, Settling:
		if op.Kind == Delete || op.Way.Refreshes() {
			return Order{}, false
		}
		o.Verb, o.Deadline = VerbPostLaunch, op.Times.HealthyBy
		if op.Way.Service != "" && op.Phase == Booting {
			o.Verb, o.Service = VerbRestartService, op.Way.Service
		}
	case Done:
		// A Boot that was taken out of service returns, even if it missed the wake-up.
		if op.Kind != Drain || op.Entered[Draining].IsZero() {
			return Order{}, false
		}
		o.Verb = VerbCancelDrain
	case "":
		return Order{}, false
	}
	// Both times are by one clock, so their difference holds for any clock.
	if since := op.Entered[begins[o.Verb]]; !since.IsZero() && o.Deadline.After(since) {
		o.Limit = o.Deadline.Sub(since)
	}
	return o, true
}

// begins is the phase whose beginning sets a verb's deadline.
var begins = map[Verb]Phase{VerbDrain: Draining, VerbPostLaunch: Booting, VerbRestartService: Booting}
