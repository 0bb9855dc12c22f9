package check

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func approvedCases() cases {
	asks := func(s *group.Spec) { s.UpdatePolicy.RequireApproval = true }
	group := func() *run { return three("none", asks).after(time.Minute) }
	return cases{
		id: "approved",
		bad: []named{
			{"an update", group().phases("a", "pg-0", operation.Draining, operation.Acting)},
			{"another Revision was approved", group().operator("control/approvals/old").phases("a", "pg-0", operation.Draining, operation.Acting)},
			{"it was withdrawn", group().operator("control/approvals/new").operator("control/approvals/new").removed().phases("a", "pg-0", operation.Acting)},
			{"a Boot of it", group().admitted("pg-0", "boot-2", "new", 2)},
		},
		good: []named{
			{"it was approved", group().operator("control/approvals/new").phases("a", "pg-0", operation.Draining, operation.Acting).admitted("pg-0", "boot-2", "new", 2)},
			{"nobody asks for it", three("none").phases("a", "pg-0", operation.Draining, operation.Acting)},
			{"it is asked for since a moment ago", three("none").after(time.Minute).spec("none", 3, asks).phases("a", "pg-0", operation.Acting)},
			{"a restart", group().op("a", "pg-0", operation.Acting, kind(operation.Restart, operation.PartRestart))},
		},
	}
}
