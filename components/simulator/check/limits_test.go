package check

import (
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// limit writes the limits of the cluster, long ago.
func (r *run) limit(steps, rollouts, creations int) *run {
	l := &store.Limits{Steps: steps, Rollouts: rollouts, Creations: creations}
	return r.operator(store.LimitsKey()).then(func(e *trace.Event) { e.Limits = l }).after(time.Minute)
}

// of moves a record to another group.
func of(name string) func(*operation.Operation) {
	return func(op *operation.Operation) { op.Group = name }
}

func limitCases() cases {
	const draining, acting = operation.Draining, operation.Acting
	rolls := func(op *operation.Operation) { op.Actor = operation.ActorRollout }
	creates := func(op *operation.Operation) {
		op.Kind, op.Actor, op.Call.Part = operation.Create, operation.ActorScaling, operation.PartCreate
	}
	steps := func(n int) *run { return three("none", maxUnavailable(3)).limit(n, 0, 0) }
	one := func() *run { return steps(1).op("a", "pg-2", draining, rolls) }
	waits := func(r *run) *run {
		return r.commit(trace.Event{Key: "groups/pg/slots/pg-0", Group: "pg", Slot: "pg-0", Limited: true})
	}
	down := func(for_ time.Duration) *run { return three("none").binds("pg-0").stops("pg-0").after(for_) }
	return cases{
		id: "R98",
		bad: []named{
			{"a second step", one().op("b", "pg-1", draining, rolls)},
			{"a second step without a drain", one().op("b", "pg-1", acting, rolls, skipDrain)},
			{"a replacement beside a step", one().op("b", "pg-1", draining, rolls, kind(operation.Replace, operation.PartDelete))},
			{"a third step", steps(2).op("a", "pg-2", draining, rolls).op("b", "pg-1", draining, rolls).op("c", "pg-0", draining, rolls)},
			{"a second step of another group", one().op("b", "kv-1", draining, rolls, of("kv"))},
			{"a second rollout", three("none").limit(0, 1, 0).op("a", "pg-2", draining, rolls).op("b", "kv-1", draining, rolls, of("kv"))},
			{"a second creation", three("none").limit(0, 0, 1).op("a", "pg-3", acting, creates).op("b", "pg-4", acting, creates)},
			{"a limit that was lowered long ago", one().limit(1, 0, 0).op("b", "pg-1", draining, rolls)},
			{"a repair that waits for a limit", waits(down(time.Minute)).after(10 * time.Minute).operator("any")},
		},
		good: []named{
			{"the first step", one()},
			{"the next one after the end of the first", one().op("a", "pg-2", operation.Done).op("b", "pg-1", draining, rolls)},
			{"two steps of one rollout", three("none", maxUnavailable(3)).limit(0, 1, 0).op("a", "pg-2", draining, rolls).op("b", "pg-1", draining, rolls)},
			{"a repair", one().op("b", "pg-1", draining, func(op *operation.Operation) { op.Kind, op.Actor = operation.Restart, operation.ActorHealing })},
			{"the update of a member that is down", one().op("b", "pg-1", draining, rolls, func(op *operation.Operation) { op.Before.Unavailable = true })},
			{"a request by name", one().op("b", "pg-1", draining, func(op *operation.Operation) { op.Actor = operation.ActorOperator })},
			{"a refresh", one().op("b", "pg-1", acting, rolls, func(op *operation.Operation) { op.Way.Mode, op.Call.Part = operation.ModeRefresh, "" })},
			{"a limit that was lowered a moment ago", steps(2).op("a", "pg-2", draining, rolls).limit(1, 0, 0).after(-time.Minute).op("b", "pg-1", draining, rolls)},
			{"no limit any more", one().limit(1, 0, 0).then(func(e *trace.Event) { e.Deleted = true }).op("b", "pg-1", draining, rolls)},
			{"the step of a member that serves waits", waits(three("none").binds("pg-0").after(10 * time.Minute))},
			{"a member that is down since a moment", waits(down(time.Minute)).operator("any")},
			{"its repair began", waits(down(time.Minute)).commit(trace.Event{Key: "groups/pg/slots/pg-0", Group: "pg", Slot: "pg-0"}).after(10 * time.Minute).operator("any")},
		},
	}
}

func afterCases() cases {
	const draining, acting = operation.Draining, operation.Acting
	rolls := func(op *operation.Operation) { op.Actor = operation.ActorRollout }
	creates := func(op *operation.Operation) {
		op.Kind, op.Actor, op.Call.Part, op.Rollout = operation.Create, operation.ActorScaling, operation.PartCreate, ""
	}
	kv := specOf("none", 1)
	kv.Name = "kv"
	first := func(state operation.RolloutState, to string) func(*run) {
		return func(r *run) {
			one := operation.Rollout{ID: "k", Group: "kv", To: to, State: state}
			r.commit(trace.Event{Key: "rollouts/k", Group: "kv", Rollout: &one})
		}
	}
	serves := func(r *run) { r.add(trace.Event{Kind: trace.Served, By: "kv-0", Group: "kv", Slot: "kv-0", Boot: "b"}) }
	stops := func(r *run) {
		r.add(trace.Event{Kind: trace.Stopped, By: "kv-0", Group: "kv", Slot: "kv-0", Boot: "b"})
	}
	follows := func(events ...func(*run)) *run {
		r := start().commit(trace.Event{Key: "groups/kv/accepted", Group: "kv", Spec: kv})
		r.spec("none", 3).then(func(e *trace.Event) { e.Spec.After = []string{"kv"} })
		for _, event := range events {
			event(r)
		}
		return r.after(time.Minute)
	}
	running := func(r *run) *run { return r.members("pg-0", "pg-1", "pg-2").binds("pg-0") }
	target := kv.Revision()
	rests := first(operation.Complete, target)
	return cases{
		id: "I4",
		bad: []named{
			{"a creation before the other group serves", follows(rests).op("a", "pg-0", acting, creates)},
			{"a creation before the end of the other's rollout", follows(serves, first(operation.Running, target)).op("a", "pg-0", acting, creates)},
			{"a step during the other's rollout", running(follows(serves, first(operation.Running, target))).op("a", "pg-0", draining, rolls)},
			{"a step during the other's last bake", running(follows(serves, first(operation.BakingState, target))).op("a", "pg-0", draining, rolls)},
			{"a step after a rollout to another revision", running(follows(serves, first(operation.Complete, "older"))).op("a", "pg-0", draining, rolls)},
			{"a step while a member of the other is away", running(follows(serves, rests, stops)).op("a", "pg-0", draining, rolls)},
		},
		good: []named{
			{"the other is at rest", running(follows(serves, rests)).op("a", "pg-0", draining, rolls)},
			{"its partition is reached", running(follows(serves, first(operation.PartitionReached, target))).op("a", "pg-0", draining, rolls)},
			{"the first creation", follows(serves, rests).op("a", "pg-0", acting, creates)},
			{"a creation in a running group", running(follows(rests)).op("a", "pg-3", acting, creates)},
			{"a repair", running(follows(rests)).op("a", "pg-0", draining, rolls, func(op *operation.Operation) { op.Before.Unavailable = true })},
			{"a request by name", running(follows(rests)).op("a", "pg-0", draining, func(op *operation.Operation) { op.Actor = operation.ActorOperator })},
			{"a rollback", running(follows(rests)).rolls(operation.RollingBack, func(r *operation.Rollout) { r.Back = &operation.Back{Revision: "old"} }).op("a", "pg-0", draining, rolls)},
			{"an operator overrides the order", running(follows(rests)).operator("control/override/pg/after_group").op("a", "pg-0", draining, rolls)},
			{"a group that is after none", running(start().spec("none", 3)).op("a", "pg-0", draining, rolls)},
		},
	}
}
