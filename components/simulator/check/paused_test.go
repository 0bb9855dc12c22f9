package check

import (
	"time"

	"cadre.dev/core/operation"
)

func pausedCases() cases {
	by := func(actor operation.Actor) func(*operation.Operation) {
		return func(op *operation.Operation) { op.Actor = actor }
	}
	group := func() *run { return start().spec("none", 2).members("pg-0", "pg-1") }
	pause := func() *run { return group().operator("control/pause/pg").after(time.Minute) }
	return cases{
		id: "I6-pause",
		bad: []named{
			{"a step of the rollout", pause().op("a", "pg-0", operation.Draining, by(operation.ActorRollout))},
			{"without a drain", pause().op("a", "pg-0", operation.Acting, by(operation.ActorRollout), skipDrain)},
			{"a scale-in", pause().op("a", "pg-0", operation.Draining, by(operation.ActorScaling), kind(operation.Delete, ""))},
		},
		good: []named{
			{"it was under way", group().op("a", "pg-0", operation.Draining, by(operation.ActorRollout)).operator("control/pause/pg").after(time.Minute).op("a", "pg-0", operation.Acting)},
			{"nobody may know it yet", group().operator("control/pause/pg").op("a", "pg-0", operation.Draining, by(operation.ActorRollout))},
			{"it goes on", pause().operator("control/pause/pg").removed().op("a", "pg-0", operation.Draining, by(operation.ActorRollout))},
			{"another group", group().operator("control/pause/kv").after(time.Minute).op("a", "pg-0", operation.Draining, by(operation.ActorRollout))},
			{"a repair", pause().op("a", "pg-0", operation.Draining, by(operation.ActorHealing), kind(operation.Restart, ""))},
			{"an operator names it", pause().op("a", "pg-0", operation.Draining, by(operation.ActorOperator))},
		},
	}
}
