package check

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

func markCases() cases {
	const draining = operation.Draining
	protected := func() *run { return three("none").operator("control/protect/pg-0") }
	drained := func() *run { return three("none").operator("control/drain/pg-0") }
	drain := func(op *operation.Operation) { op.Kind = operation.Drain }
	restart := func(op *operation.Operation) { op.Kind = operation.Restart }
	excludes := func(r *run, slot string, from ...string) *run {
		return r.operator("control/exclude/" + slot).then(func(e *trace.Event) { e.Slot, e.Excluded = slot, &store.Override{From: from} })
	}
	excluded := func(from ...string) *run { return excludes(three("none"), "pg-0", from...) }
	heals := func(op *operation.Operation) { op.Kind, op.Actor = operation.Restart, operation.ActorHealing }
	return cases{
		id: "R139",
		bad: []named{
			{"an update of one that is protected", protected().after(time.Minute).phases("a", "pg-0", draining)},
			{"a drain of one that is protected", protected().after(time.Minute).op("a", "pg-0", draining, drain)},
			{"a restart of one that is well and protected", protected().after(time.Minute).op("a", "pg-0", draining, restart)},
			{"an update of one that is drained", drained().after(time.Minute).phases("a", "pg-0", draining)},
			{"an update of one that is excluded", excluded().after(time.Minute).phases("a", "pg-0", draining)},
			{"an update of one that is excluded from rollouts", excluded(group.FromRollout).after(time.Minute).phases("a", "pg-0", draining)},
			{"a repair of one that is excluded from healing", excluded(group.FromHealing).stops("pg-0").after(time.Minute).op("a", "pg-0", operation.Acting, heals, skipDrain)},
			{"its removal", drained().after(time.Minute).op("a", "pg-0", draining, kind(operation.Delete, operation.PartDelete))},
		},
		good: []named{
			{"another one", protected().after(time.Minute).phases("a", "pg-1", draining)},
			{"a moment after, unknown yet", protected().phases("a", "pg-0", draining)},
			{"no more", protected().after(time.Minute).operator("control/protect/pg-0").removed().phases("a", "pg-0", draining)},
			{"a restart of one that is down", protected().stops("pg-0").after(time.Minute).op("a", "pg-0", operation.Acting, restart, skipDrain)},
			{"an update of one that is excluded from healing", excluded(group.FromHealing).after(time.Minute).phases("a", "pg-0", draining)},
			{"a repair of one that is excluded from rollouts", excluded(group.FromRollout).stops("pg-0").after(time.Minute).op("a", "pg-0", operation.Acting, heals, skipDrain)},
			{"an update of an extra one that is excluded", excludes(surged(), "pg-3").after(time.Minute).phases("a", "pg-3", draining)},
			{"a restart by name of one that is excluded", excluded().after(time.Minute).op("a", "pg-0", draining, restart)},
			{"excluded from healing in place of rollouts", excluded(group.FromRollout).after(time.Minute).operator("control/exclude/pg-0").then(func(e *trace.Event) { e.Slot, e.Excluded = "pg-0", &store.Override{From: []string{group.FromHealing}} }).
				after(time.Minute).phases("a", "pg-0", draining)},
			{"one that was excluded", excluded().after(time.Minute).operator("control/exclude/pg-0").removed().then(func(e *trace.Event) { e.Slot, e.Excluded = "pg-0", &store.Override{} }).phases("a", "pg-0", draining)},
			{"the drain itself", drained().after(time.Minute).op("a", "pg-0", draining, drain)},
			{"the group goes", protected().after(time.Minute).operator("control/delete/pg").op("a", "pg-0", draining, kind(operation.Delete, operation.PartDelete))},
		},
	}
}

// surged is a group of three whose rollout has an extra member and max_unavailable 0.
func surged() *run {
	return start().spec("none", 3, maxUnavailable(0)).members("pg-0", "pg-1", "pg-2").
		binds("pg-3").binding(func(s *group.SlotRecord) { s.Extra = true }).serves("pg-3").after(time.Minute)
}
