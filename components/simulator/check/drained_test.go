package check

import (
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

func drainedCases() cases {
	drains := func() *run {
		return start().spec("none", 2).members("pg-0", "pg-1").phases("a", "pg-0", operation.Draining)
	}
	acts := func(r *run) *run { return r.phases("a", "pg-0", operation.Drained, operation.Acting) }
	fault := func(r *run, text string) *run {
		return r.add(trace.Event{Kind: trace.Faulted, By: "fault", Text: text})
	}
	return cases{
		id: "drained",
		bad: []named{
			{"a hook holds", acts(drains())},
			{"it was drained for another step before", acts(start().spec("none", 2).members("pg-0", "pg-1").drained("pg-0").phases("a", "pg-0", operation.Draining))},
			{"another one was drained", acts(drains().drained("pg-1"))},
			{"members were not heard long ago", acts(fault(start(), "cut-members coordinator-0 for 10s").after(mayPart).spec("none", 2).members("pg-0", "pg-1").phases("a", "pg-0", operation.Draining))},
		},
		good: []named{
			{"its agent says so", acts(drains().drained("pg-0"))},
			{"its time is over", acts(drains().after(3 * time.Minute))},
			{"there is nothing to drain", start().spec("none", 2).members("pg-0", "pg-1").op("a", "pg-0", operation.Drained, skipDrain).phases("a", "pg-0", operation.Acting)},
			{"its Boot is gone", acts(drains().stops("pg-0"))},
			{"another Boot serves", acts(drains().stops("pg-0").servesAs("pg-0", "boot-2"))},
			{"nobody hears it", acts(drains().mutes("pg-0"))},
			{"a coordinator does not", acts(fault(drains(), "cut-members coordinator-0 for 10s"))},
			{"half of it is done", acts(drains().op("a", "pg-0", operation.Drained, func(op *operation.Operation) { op.Call.Applied = []operation.Part{operation.PartOSImage} }))},
		},
	}
}
