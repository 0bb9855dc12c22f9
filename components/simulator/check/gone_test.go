package check

import (
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

func goneCases() cases {
	made := func() *run { return three("none").binds("pg-0").called(cloud.Create, "pg-0").effected(1) }
	hidden := func() *run {
		return three("none").binds("pg-0").add(trace.Event{Kind: trace.Faulted, By: "fault", Text: "hide all for 1m0s"})
	}
	removed := func(r *run) *run { return r.spec("none", 3).removed() }
	unbound := func(r *run) *run { return r.binds("pg-0").removed() }
	over := func() *run {
		return removed(unbound(made().deletes(false).called(cloud.Delete, "pg-0").effected(2)))
	}
	return cases{
		id: "gone",
		bad: []named{
			{"its CVM is left", removed(unbound(made().deletes(false)))},
			{"its CVM is left, and its creation was answered", removed(unbound(hidden().called(cloud.Create, "pg-0").answered(1, trace.OK).effected(1).deletes(false)))},
			{"the record of its Slot is left", removed(made().deletes(false).called(cloud.Delete, "pg-0").effected(2))},
			{"its policy is left", removed(unbound(made().allowed("pg-0", "old").deletes(false).called(cloud.Delete, "pg-0").effected(2)))},
			{"an Operation is open", removed(unbound(three("none").binds("pg-0").phases("a", "pg-0", operation.Draining).deletes(false)))},
			{"a CVM comes after it", over().called(cloud.Create, "pg-1").effected(3)},
			{"a record comes after it", over().after(time.Minute).binds("pg-1")},
			{"an Operation comes after it", over().after(time.Minute).phases("b", "pg-1", operation.Draining)},
		},
		good: []named{
			{"all of it is gone", over()},
			{"it was to keep its CVMs", removed(unbound(made().deletes(true)))},
			{"its CVM came to be unseen", removed(unbound(hidden().called(cloud.Create, "pg-0").effected(1).deletes(false)))},
			{"the same, and the answer was lost", removed(unbound(hidden().called(cloud.Create, "pg-0").answered(1, trace.Unknown).effected(1).deletes(false)))},
			{"its CVM was lost", removed(unbound(made().lost("pg-0").deletes(false)))},
			{"it is made anew", over().spec("none", 3).binds("pg-0").called(cloud.Create, "pg-0").effected(3)},
			{"an Operation that ended", removed(unbound(three("none").binds("pg-0").phases("a", "pg-0", operation.Draining, operation.Aborted).deletes(false)))},
		},
	}
}
