package check

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

func rollbackCases() cases {
	asks := func(sp *group.Spec) { sp.UpdatePolicy.OnFailure = group.Rollback }
	begun := func(change ...func(*group.Spec)) *run {
		return start().spec("none", 2, change...).members("pg-0", "pg-1")
	}
	record := func(r *run, state operation.RolloutState, back *operation.Back) *run {
		return r.commit(trace.Event{Key: store.RolloutKey("r"), Group: "pg", Rollout: &operation.Rollout{ID: "r", Group: "pg", To: "bad", State: state, Back: back}})
	}
	back := func(change ...func(*operation.Back)) *operation.Back {
		b := &operation.Back{Revision: "good", Verdict: operation.Verdict{Cause: operation.CauseDeadline}}
		for _, c := range change {
			c(b)
		}
		return b
	}
	over := func(b *operation.Back) { b.Over = true }
	goes := func() *run { return record(begun(asks), operation.RollingBack, back()) }
	step := func(r *run, to string) *run {
		return r.op("a", "pg-0", operation.Draining, func(op *operation.Operation) { op.To, op.Actor = to, operation.ActorRollout })
	}
	return cases{
		id: "R101",
		bad: []named{
			{"no spec asks for it", record(begun(), operation.RollingBack, back())},
			{"to its own Revision", record(begun(asks), operation.RollingBack, back(func(b *operation.Back) { b.Revision = "bad" }))},
			{"without a verdict", record(begun(asks), operation.RollingBack, back(func(b *operation.Back) { b.Verdict = operation.Verdict{} }))},
			{"after a failure of the platform", record(begun(asks), operation.RollingBack, back(func(b *operation.Back) { b.Verdict.Cause = operation.CauseTask }))},
			{"elsewhere later", record(goes(), operation.RollingBack, back(func(b *operation.Back) { b.Revision = "older" }))},
			{"a second time", record(record(goes(), operation.Running, back(over)), operation.RollingBack, back())},
			{"it is forgotten", record(goes(), operation.Running, nil)},
			{"a step to the failed Revision", step(goes(), "bad")},
			{"a leader writes the spec", begun(asks).commit(trace.Event{Key: store.GroupSpecKey("pg"), Group: "pg", Term: 1})},
		},
		good: []named{
			{"it goes back", step(goes(), "good")},
			{"tried again", step(record(goes(), operation.Running, back(over)), "bad")},
			{"an operator names the Slot", goes().op("a", "pg-0", operation.Draining, func(op *operation.Operation) { op.To, op.Actor = "bad", operation.ActorOperator })},
			{"the same record again", record(goes().after(time.Minute), operation.RolledBack, back())},
			{"an operator writes the spec", begun(asks).operator(store.GroupSpecKey("pg"))},
		},
	}
}
