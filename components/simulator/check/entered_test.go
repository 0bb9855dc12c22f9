package check

import (
	"fmt"

	"cadre.dev/core/audit"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// entered adds entries about records to the last transaction.
func (r *run) entered(keys ...string) *run {
	for _, key := range keys {
		r.together = true
		r.commit(trace.Event{Key: fmt.Sprintf("audit/%012d", len(r.t)), Entry: &audit.Entry{Object: key}})
		r.together = false
	}
	return r
}

func enteredCases() cases {
	const id, accepted = "pg-1-11d1c0f8", "groups/pg/accepted"
	freeze := store.OverrideKey(store.OverrideFreeze, "pg")
	key := store.RolloutKey(id)
	running := func() *run {
		return start().spec("none", 3).entered(accepted).rollout(id, operation.Running, nil).entered(key)
	}
	return cases{
		id: "CTL-21",
		bad: []named{
			{"a spec without an entry", start().spec("none", 3)},
			{"an entry of another record", start().spec("none", 3).entered(freeze)},
			{"two entries of one act", start().spec("none", 3).entered(accepted, accepted)},
			{"the begin of a rollout", start().rollout(id, operation.Running, nil)},
			{"the end of a rollout", running().rollout(id, operation.Complete, nil)},
			{"the failure of a rollout", running().rollout(id, operation.FailedState, nil)},
			{"an override that a leader removes", start().commit(trace.Event{Key: freeze}).removed()},
		},
		good: []named{
			{"each act with its entry", running().rollout(id, operation.Complete, nil).entered(key)},
			{"progress has none", running().rollout(id, operation.Running, nil).rollout(id, operation.PausedState, nil)},
			{"an override that a leader removes", start().commit(trace.Event{Key: freeze}).removed().entered(freeze)},
			{"an operator's edit has its entry later", start().operator(freeze)},
			{"the removal of a group", running().spec("none", 3).removed()},
		},
	}
}
