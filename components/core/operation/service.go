package operation

import (
	"cmp"
	"time"
)

// restartService has the agent end the workload of one service and start it again. The order is in the record before
// the agent can see it. An agent that finished the order answers a repetition from memory; an agent that was
// interrupted starts the order again.
func (op Operation) restartService(f Facts, now time.Time) (Operation, []Effect) {
	op = op.stops(f, now)
	op.Times.HealthyBy = now.Add(f.Limits.Service)
	return op.enter(Booting, now).because("waits for the agent to restart service " + op.Way.Service),
		[]Effect{{Kind: SendOrder, Verb: VerbRestartService}}
}

// fromRestarting waits for the agent's answer. A CVM that boots meanwhile starts every service again, including this
// service.
func (op Operation) fromRestarting(f Facts, now time.Time) (Operation, []Effect) {
	if a := f.Admission; a != nil && a.BootID != op.Before.BootID && op.newBoot(f) {
		return op.join(f, "the CVM booted by itself", now)
	}
	step := op.step(f, VerbRestartService)
	switch step.State {
	case StepDone:
		return op.join(f, "service "+op.Way.Service+" was restarted", now)
	case StepAborted, StepFailed:
		next, _ := op.fail(Failure{Cause: CauseService}, "service "+op.Way.Service+": "+cmp.Or(step.Message, "the agent could not restart it"), now)
		return next, op.cancelDrain()
	case StepRunning, StepHeld:
		op = op.because(cmp.Or(step.Message, "the agent restarts service "+op.Way.Service))
	}
	return op.overdue(f, now)
}
