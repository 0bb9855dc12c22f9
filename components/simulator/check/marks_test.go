package check

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func markCases() cases {
	const draining = operation.Draining
	protected := func() *run { return three("none").operator("control/protect/pg-0") }
	drained := func() *run { return three("none").operator("control/drain/pg-0") }
	drain := func(op *operation.Operation) { op.Kind = operation.Drain }
	restart := func(op *operation.Operation) { op.Kind = operation.Restart }
	return cases{
		id: "R139",
		bad: []named{
			{"an update of one that is protected", protected().after(time.Minute).phases("a", "pg-0", draining)},
			{"a drain of one that is protected", protected().after(time.Minute).op("a", "pg-0", draining, drain)},
			{"a restart of one that is well and protected", protected().after(time.Minute).op("a", "pg-0", draining, restart)},
			{"an update of one that is drained", drained().after(time.Minute).phases("a", "pg-0", draining)},
			{"its removal", drained().after(time.Minute).op("a", "pg-0", draining, kind(operation.Delete, operation.PartDelete))},
		},
		good: []named{
			{"another one", protected().after(time.Minute).phases("a", "pg-1", draining)},
			{"a moment after, unknown yet", protected().phases("a", "pg-0", draining)},
			{"no more", protected().after(time.Minute).operator("control/protect/pg-0").removed().phases("a", "pg-0", draining)},
			{"a restart of one that is down", protected().stops("pg-0").after(time.Minute).op("a", "pg-0", operation.Acting, restart, skipDrain)},
			{"the drain itself", drained().after(time.Minute).op("a", "pg-0", draining, drain)},
			{"the group goes", protected().after(time.Minute).operator("control/delete/pg").op("a", "pg-0", draining, kind(operation.Delete, operation.PartDelete))},
		},
	}
}

// surged is a group of three whose rollout has an extra member, with none of the others to spare.
func surged() *run {
	return start().spec("none", 3, maxUnavailable(0)).members("pg-0", "pg-1", "pg-2").
		binds("pg-3").binding(func(s *group.SlotRecord) { s.Extra = true }).serves("pg-3").after(time.Minute)
}
