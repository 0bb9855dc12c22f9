package check

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

func gatedCases() cases {
	const draining, drained, acting = operation.Draining, operation.Drained, operation.Acting
	rolls := func(op *operation.Operation) { op.Actor = operation.ActorRollout }
	heals := func(op *operation.Operation) { op.Kind, op.Actor = operation.Restart, operation.ActorHealing }
	creates := func(op *operation.Operation) {
		op.Kind, op.Actor, op.Call.Part = operation.Create, operation.ActorScaling, operation.PartCreate
	}
	ticket := func(text string) func(*operation.Operation) {
		return func(op *operation.Operation) { op.Actor, op.Ticket = operation.ActorRollout, text }
	}
	has := func(per string, on ...string) func(*group.Spec) {
		return func(s *group.Spec) {
			s.Gates = []group.Gate{{Name: "g", On: on, Per: per}}
			s.AutoHealing = &group.AutoHealing{Replace: group.ReplaceAsk}
		}
	}
	// sets writes a setting of a gate, long ago.
	sets := func(r *run, scope, state, ticket string) *run {
		return r.operator(store.OverrideGate.Prefix() + scope).then(func(e *trace.Event) {
			e.Gate = &store.Override{State: state, Ticket: ticket}
		}).after(time.Minute)
	}
	with := func(on ...string) *run { return three("none", has("", on...), maxUnavailable(3)) }
	slots := func(on ...string) *run { return three("none", has(group.GatePerSlot, on...), maxUnavailable(3)) }
	opened := func(r *run) *run { return sets(r, "pg/g", group.GateOpen, "") }
	ofPG1 := func(r *run) *run { return sets(r, "pg/g/pg-1", group.GateOpen, "t") }
	passes := func(r *run, stages int) *run {
		return r.rollout("r", operation.Running, nil).rollout("r", operation.Running, nil).then(func(e *trace.Event) { e.Rollout.StagesPassed = stages })
	}
	// waits: pg-1, which the platform stopped, waits at a gate alone.
	waits := func(r *run) *run {
		r.binds("pg-1").binding(func(b *group.SlotRecord) { b.Assigned = "old" }).admitted("pg-1", "boot-1-of-pg-1", "old", 1)
		r.add(trace.Event{Kind: trace.Faulted, By: "fault", Text: "halt pg-1 for 0s"}).stops("pg-1")
		return r.commit(trace.Event{Key: "groups/pg/slots/pg-1", Group: "pg", Slot: "pg-1", Gated: true}).after(2 * time.Minute)
	}
	return cases{
		id: "R150",
		bad: []named{
			{"a gate that no operator opened", with("step").op("a", "pg-1", draining, rolls)},
			{"a step without a drain", with("step").op("a", "pg-1", drained, rolls, skipDrain)},
			{"a request by name", with("step").op("a", "pg-1", draining, func(op *operation.Operation) { op.Actor = operation.ActorOperator })},
			{"a restart that is asked for", with("step").op("a", "pg-1", draining, func(op *operation.Operation) { op.Kind, op.Actor = operation.Restart, operation.ActorOperator })},
			{"a creation", with("create").op("a", "pg-3", drained, creates)},
			{"a repair that the gate names", with("step", "heal").op("a", "pg-1", draining, heals)},
			{"a gate that was closed long ago", sets(opened(with("step")), "pg/g", group.GateClosed, "").op("a", "pg-1", draining, rolls)},
			{"a setting that was removed long ago", opened(opened(with("step")).operator("any")).then(func(e *trace.Event) { e.Deleted = true }).op("a", "pg-1", draining, rolls)},
			{"a call after the gate closed", sets(opened(with("step")).op("a", "pg-1", draining, rolls), "pg/g", group.GateClosed, "").op("a", "pg-1", acting)},
			{"a step that the setting of the Slot does not name", ofPG1(slots("step")).op("a", "pg-1", draining, ticket("other"))},
			{"a step of another Slot", ofPG1(slots("step")).op("a", "pg-2", draining, ticket("t"))},
			{"the gate of another group is open", sets(with("step"), "kv/g", group.GateOpen, "").op("a", "pg-1", draining, rolls)},
			{"a state that is not readable", sets(with("step"), "pg/g", "ajar", "").op("a", "pg-1", draining, rolls)},
			{"a stage that opens", passes(with("promote"), 1)},
			{"a stopped member that waits at a gate of steps", waits(with("step")).operator("any")},
		},
		good: []named{
			{"an open gate", opened(with("step")).op("a", "pg-1", draining, rolls)},
			{"an opening of this step", ofPG1(slots("step")).op("a", "pg-1", draining, ticket("t"))},
			{"a repair", with("step").op("a", "pg-1", draining, heals)},
			{"a creation, where steps wait", with("step").op("a", "pg-3", drained, creates)},
			{"a drain", with("step").op("a", "pg-1", draining, func(op *operation.Operation) { op.Kind, op.Actor = operation.Drain, operation.ActorOperator })},
			{"a refresh", with("step").op("a", "pg-1", acting, rolls, func(op *operation.Operation) { op.Way.Mode, op.Call.Part = operation.ModeRefresh, "" })},
			{"a gate that is open by default", three("none", has("", "step"), func(s *group.Spec) { s.Gates[0].Default = group.GateOpen }).op("a", "pg-1", draining, rolls)},
			{"a gate that closed a moment ago", sets(opened(with("step")), "pg/g", group.GateClosed, "").after(-time.Minute).op("a", "pg-1", draining, rolls)},
			{"a step whose call was made before the gate closed", sets(opened(with("step")).op("a", "pg-1", draining, rolls).op("a", "pg-1", acting), "pg/g", group.GateClosed, "").op("a", "pg-1", operation.Booting)},
			{"the second part of a step", sets(opened(with("step")).op("a", "pg-1", draining, rolls).op("a", "pg-1", acting), "pg/g", group.GateClosed, "").
				op("a", "pg-1", drained, func(op *operation.Operation) { op.Call.Applied = []operation.Part{operation.PartCompose} }).op("a", "pg-1", acting)},
			{"the gate came a moment ago", three("none").after(time.Minute).spec("none", 3, has("", "step")).op("a", "pg-1", draining, rolls)},
			{"a stage that opens at an open gate", passes(opened(with("promote")), 1)},
			{"a stage that opens at a gate of steps", passes(with("step"), 1)},
			{"a group that is deleted", with("remove").deletes(false).op("a", "pg-1", draining, kind(operation.Delete, operation.PartDelete))},
			{"a stopped member waits at a gate that names repairs", waits(with("step", "heal")).operator("any")},
			{"a stopped member was given another revision", waits(with("step")).after(-2 * time.Minute).binds("pg-1").binding(func(b *group.SlotRecord) { b.Assigned = "new" }).after(2 * time.Minute).operator("any")},
			{"a stopped member is repaired", waits(with("step")).after(-2*time.Minute).op("a", "pg-1", draining, heals).after(2 * time.Minute).operator("any")},
			{"a stopped member is excluded from healing", waits(with("step")).after(-2 * time.Minute).operator("control/exclude/pg-1").then(func(e *trace.Event) {
				e.Slot, e.Excluded = "pg-1", &store.Override{From: []string{group.FromHealing}}
			}).after(2 * time.Minute).operator("any")},
		},
	}
}
