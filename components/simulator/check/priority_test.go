package check

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/queue"
	"cadre.dev/simulator/trace"
)

func priorityCases() cases {
	const draining, done = operation.Draining, operation.Done
	rolls := func(op *operation.Operation) { op.Actor = operation.ActorRollout }
	creates := func(op *operation.Operation) {
		op.Kind, op.Actor, op.Call.Part = operation.Create, operation.ActorScaling, operation.PartCreate
	}
	app := func(change ...func(*operation.Operation)) func(*operation.Operation) {
		return func(op *operation.Operation) {
			op.Group, op.Rollout, op.Actor = "app", "a", operation.ActorRollout
			for _, c := range change {
				c(op)
			}
		}
	}
	// groups are pg, of the default priority, and kv and app of these, with the limits of the cluster.
	groups := func(kv, app, steps, rollouts, creations int) *run {
		r := three("none", maxUnavailable(3)).limit(steps, rollouts, creations)
		for name, n := range map[string]int{"kv": kv, "app": app} {
			sp := specOf("none", 3, func(s *group.Spec) { s.Priority = &n })
			sp.Name = name
			r.commit(trace.Event{Key: "groups/" + name + "/accepted", Group: name, Spec: sp})
			r.add(trace.Event{Kind: trace.Served, By: name + "-0", Group: name, Slot: name + "-0", Boot: "b"})
		}
		return r.after(time.Minute)
	}
	waits := func(r *run, slot string, limit queue.Limit) *run {
		name, _, _ := group.ParseSlot(slot)
		return r.commit(trace.Event{Key: "groups/" + name + "/slots/" + slot, Group: name, Slot: slot, Waits: limit}).after(time.Minute)
	}
	// ends: the step of app that had the only place is over.
	ends := func(r *run) *run { return r.op("x", "app-0", done, app()) }
	line := func(kv int) *run {
		return ends(waits(groups(kv, 90, 1, 0, 0).op("x", "app-0", draining, app()), "kv-0", queue.Steps))
	}
	return cases{
		id: "R98-priority",
		bad: []named{
			{"a step takes the only place", line(90).op("b", "pg-1", draining, rolls)},
			{"a replacement takes it", line(90).op("b", "pg-1", draining, rolls, kind(operation.Replace, operation.PartDelete))},
			{"two places for two groups ahead", waits(waits(groups(60, 70, 2, 0, 0), "kv-0", queue.Steps), "app-0", queue.Steps).op("b", "pg-1", draining, rolls)},
			{"a creation takes the only place", waits(groups(60, 0, 0, 0, 1), "kv-0", queue.Creations).op("b", "pg-3", draining, creates)},
			{"a rollout takes the only place", waits(groups(60, 0, 0, 1, 0), "kv-0", queue.Rollouts).op("b", "pg-1", draining, rolls)},
			{"the priority was raised long ago", line(10).commit(trace.Event{Key: "groups/kv/accepted", Group: "kv", Spec: func() *group.Spec {
				n := 80
				sp := specOf("none", 3, func(s *group.Spec) { s.Priority = &n })
				sp.Name = "kv"
				return sp
			}()}).after(time.Minute).op("b", "pg-1", draining, rolls)},
		},
		good: []named{
			{"a group of a lower priority waits", line(10).op("b", "pg-1", draining, rolls)},
			{"a group of the same priority waits", line(50).op("b", "pg-1", draining, rolls)},
			{"a place for both", waits(groups(60, 0, 2, 0, 0), "kv-0", queue.Steps).op("b", "pg-1", draining, rolls)},
			{"it waits at another limit", waits(groups(60, 0, 1, 0, 1), "kv-0", queue.Creations).op("b", "pg-1", draining, rolls)},
			{"it waits for something else since", waits(line(90), "kv-0", "").op("b", "pg-1", draining, rolls)},
			{"it waits since a moment", line(90).after(-time.Minute).op("b", "pg-1", draining, rolls)},
			{"a repair", line(90).op("b", "pg-1", draining, func(op *operation.Operation) { op.Kind, op.Actor = operation.Restart, operation.ActorHealing })},
			{"the update of a member that is down", line(90).op("b", "pg-1", draining, rolls, func(op *operation.Operation) { op.Before.Unavailable = true })},
			{"a request by name", line(90).op("b", "pg-1", draining, func(op *operation.Operation) { op.Actor = operation.ActorOperator })},
			{"a second step of a rollout with a place", waits(groups(60, 0, 0, 1, 0).op("c", "pg-0", draining, rolls).op("c", "pg-0", done), "kv-0", queue.Rollouts).op("b", "pg-1", draining, rolls)},
			{"the limit was removed", line(90).limit(1, 0, 0).then(func(e *trace.Event) { e.Deleted = true }).op("b", "pg-1", draining, rolls)},
			{"the other one begins as well", line(90).op("k", "kv-0", draining, rolls, of("kv")).op("k", "kv-0", done).op("b", "pg-1", draining, rolls)},
		},
	}
}
