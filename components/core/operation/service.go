package operation

import "time"

// restartService has the agent end the workload of one service and start it again. The order is in the record before
// the agent can see it. An agent that finished the order answers a repetition from memory; an agent that was
// interrupted starts the order again.
func (op Operation) restartService(f Facts, now time.Time) (Operation, []Effect) {
	op = op.stops(f, now)
	op.Times.HealthyBy = now.Add(f.Limits.Service)
	return op.enter(Booting, now).because("waits for the agent to restart service " + op.Way.Service),
		[]Effect{{Kind: SendOrder, Verb: VerbRestartService}}
}
