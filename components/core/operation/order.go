package operation

import (
	"iter"
	"time"
)

// Verb is what an Operation asks of the agent.
type Verb string

const (
	// VerbDrain prepares for the stop.
	VerbDrain Verb = "drain"
	// VerbCancelDrain returns to service.
	VerbCancelDrain Verb = "cancel_drain"
	// VerbPostLaunch runs POST_LAUNCH hooks.
	VerbPostLaunch Verb = "post_launch"
	// VerbRestartService ends the workload of one service and starts it anew.
	VerbRestartService Verb = "restart_service"
)

// StepState is how far an order got.
type StepState string

const (
	// StepRunning: at work, heartbeating.
	StepRunning StepState = "running"
	// StepDone: finished.
	StepDone StepState = "done"
	// StepAborted: a hook said ABANDON.
	StepAborted StepState = "aborted"
	// StepHeld: a hook said HOLD.
	StepHeld StepState = "held"
	// StepFailed: could not be done.
	StepFailed StepState = "failed"
)

// StepReport is the agent's answer to one order of an Operation.
type StepReport struct {
	Operation   string
	Verb        Verb
	Attempt     int
	State       StepState
	Message     string
	Transferred bool
	NewLeader   string
}

// Order is what the agent of the Slot should be doing for an Operation now. The
// triple (Operation, Verb, Attempt) is its token: answers to another one are
// ignored (R81).
type Order struct {
	Operation string
	Verb      Verb
	Attempt   int
	// Deadline is absolute and does not move with retries or takeovers (R79). It is by the
	// clock of the leader that set it; Limit is how long that was from then on, by any clock.
	// Zero: there is none, or the record does not tell.
	Deadline       time.Time
	Limit          time.Duration
	ExpectedLeader string
	Candidates     []string
	// WithoutHooks, of VerbDrain: only leadership is handed over.
	WithoutHooks bool
	// Service is whose workload VerbRestartService is about.
	Service string
}

// OrderFor is what the Operations of one Slot, newest first, ask of one Boot of it. The newest that asks
// anything decides; those that are not kept any more are of steps that no agent misses.
func OrderFor(newest iter.Seq[Operation], boot string) (o Order, ok bool) {
	for op := range newest {
		if !op.asksNothing() {
			return CurrentOrder(op.seenBy(boot))
		}
	}
	return Order{}, false
}

// seenBy is op as it concerns one Boot. The Boot that was drained stays drained until it is gone:
// the order after the platform call is for the Boot that comes next. Where a service is
// restarted, no Boot comes next, unless the CVM boots by itself: then all of it has started
// anew, and is not ended once more.
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

// asksNothing reports that op asks nothing of the agent and did not stop its Boot, now or
// before it ended, so that the order of the Operation before it stands: a return to service
// that the agent may not have heard of. A refresh never asks.
func (op Operation) asksNothing() bool {
	switch {
	case op.Way.Refreshes():
		return true
	case !op.Phase.Ended():
		return false
	}
	return op.Entered[Draining].IsZero() && op.Entered[Acting].IsZero() && op.Entered[Booting].IsZero()
}

// CurrentOrder derives the order from the record alone, so that any coordinator
// gives the same one. ok is false when the agent has nothing to do. An Operation
// that was called off keeps ordering the return to service, also after it ended,
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
		// One that ended before its last call was taken left a member behind that may be
		// drained, also where an earlier change of several is there. So did one whose service
		// was not restarted: the Boot is the one that was drained.
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
		// A Boot that was taken out of service goes back, also one that missed the wake-up.
		if op.Kind != Drain || op.Entered[Draining].IsZero() {
			return Order{}, false
		}
		o.Verb = VerbCancelDrain
	case Superseded, "":
		return Order{}, false
	}
	// Both times are of one clock, and their distance is true by any.
	if since := op.Entered[begins[o.Verb]]; !since.IsZero() && o.Deadline.After(since) {
		o.Limit = o.Deadline.Sub(since)
	}
	return o, true
}

// begins is the phase at whose beginning a verb's deadline was set.
var begins = map[Verb]Phase{VerbDrain: Draining, VerbPostLaunch: Booting, VerbRestartService: Booting}
