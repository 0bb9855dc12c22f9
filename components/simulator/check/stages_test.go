package check

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// rolls is rollout "r" of pg from "old" to "new".
func (r *run) rolls(state operation.RolloutState, change ...func(*operation.Rollout)) *run {
	one := operation.Rollout{ID: "r", Group: "pg", From: "old", To: "new", State: state}
	for _, c := range change {
		c(&one)
	}
	return r.commit(trace.Event{Key: "rollouts/r", Group: "pg", Rollout: &one})
}

func stagedCases() cases {
	stages := func(s *group.Spec) { s.UpdatePolicy.Stages = []group.Stage{{Slots: 1}, {Slots: 2}} }
	rolls := func(op *operation.Operation) { op.Actor = operation.ActorRollout }
	passed := func(n int) func(*operation.Rollout) {
		return func(r *operation.Rollout) { r.StagesPassed = n }
	}
	given := func(slots ...string) *run {
		r := three("none", stages).rolls(operation.Running)
		for _, slot := range slots {
			r.binds(slot).binding(func(b *group.SlotRecord) { b.Assigned = "new" })
		}
		return r
	}
	const draining = operation.Draining
	return cases{
		id: "R94",
		bad: []named{
			{"a second slot in a stage of one", given("pg-2").op("a", "pg-1", draining, rolls)},
			{"a third slot in a stage of two", given("pg-2", "pg-1").rolls(operation.Running, passed(1)).op("a", "pg-0", draining, rolls)},
			{"without a drain", given("pg-2").op("a", "pg-1", operation.Acting, rolls, skipDrain)},
		},
		good: []named{
			{"the slot of the stage", given().op("a", "pg-2", draining, rolls)},
			{"the same slot again", given("pg-2").op("a", "pg-2", draining, rolls)},
			{"a slot that was replaced on request, at the target", given("pg-2", "pg-1").op("a", "pg-1", draining, rolls)},
			{"the next stage", given("pg-2").rolls(operation.Running, passed(1)).op("a", "pg-1", draining, rolls)},
			{"all stages are over", given("pg-2", "pg-1").rolls(operation.Running, passed(2)).op("a", "pg-0", draining, rolls)},
			{"an operator asked for it", given("pg-2").op("a", "pg-1", draining, func(op *operation.Operation) { op.Actor = operation.ActorOperator })},
			{"a repair", given("pg-2").op("a", "pg-1", draining, rolls, func(op *operation.Operation) { op.Before.Unavailable = true })},
			{"the first revision", given("pg-2").rolls(operation.Running, func(r *operation.Rollout) { r.From = "" }).op("a", "pg-1", draining, rolls)},
			{"the revision was stable before the group grew", given("pg-2").rolls(operation.Complete).rolls(operation.Running).op("a", "pg-1", draining, rolls)},
			{"a slot at the target leaves the group", given("pg-2").spec("none", 2, stages).after(time.Minute).op("a", "pg-1", draining, rolls)},
			{"an operator excludes a slot", given("pg-2").operator("control/exclude/pg-2").op("a", "pg-1", draining, rolls)},
		},
	}
}

func bakedCases() cases {
	bake := func(s *group.Spec) { s.UpdatePolicy.Bake = group.Duration(time.Minute) }
	from := func(r *operation.Rollout) { r.BakeSince = began }
	at := func(d time.Duration) func(*operation.Rollout) {
		return func(r *operation.Rollout) { r.EndedAt = began.Add(d) }
	}
	return cases{
		id: "R91",
		bad: []named{
			{"at once", three("none", bake).rolls(operation.Running).rolls(operation.Complete, at(time.Hour))},
			{"early", three("none", bake).rolls(operation.BakingState, from).rolls(operation.Complete, at(59*time.Second))},
			{"without a record before", three("none", bake).rolls(operation.Complete, at(time.Hour))},
		},
		good: []named{
			{"at its end", three("none", bake).rolls(operation.BakingState, from).rolls(operation.Complete, at(time.Minute))},
			{"opened again", three("none", bake).rolls(operation.BakingState, from).rolls(operation.Complete, at(time.Minute)).rolls(operation.Running).rolls(operation.Complete, at(2*time.Minute))},
			{"no bake", three("none").rolls(operation.Running).rolls(operation.Complete)},
			{"the way back", three("none", bake).rolls(operation.Running).rolls(operation.Complete, func(r *operation.Rollout) { r.From = "new" })},
		},
	}
}
