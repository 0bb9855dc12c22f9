package check

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	spans "cadre.dev/core/window"
	"cadre.dev/simulator/trace"
)

func windowCases() cases {
	opens := func(from, to string) func(*group.Spec) {
		return func(s *group.Spec) {
			s.UpdatePolicy.Windows = spans.Windows{{From: from, To: to, Zone: "UTC"}}
		}
	}
	rolls := func(op *operation.Operation) { op.Actor = operation.ActorRollout }
	late := func() *run { return three("none", opens("05:00", "06:00")).after(10 * time.Minute) }
	skewed := func(r *run) *run {
		return r.add(trace.Event{Kind: trace.Faulted, By: "fault", Text: "skew coordinator-0 for 1h0m0s"})
	}
	return cases{
		id: "R97",
		bad: []named{
			{"hours before the window", late().op("a", "pg-0", operation.Draining, rolls)},
			{"hours before, by any clock of a plan", skewed(late()).op("a", "pg-0", operation.Draining, rolls)},
			{"after the window", three("none", opens("00:00", "00:01")).after(30*time.Minute).op("a", "pg-0", operation.Draining, rolls)},
		},
		good: []named{
			{"in the window", three("none", opens("00:00", "06:00")).after(10*time.Minute).op("a", "pg-0", operation.Draining, rolls)},
			{"in an hour that a set clock may show", skewed(three("none", opens("01:00", "02:00")).after(10*time.Minute)).op("a", "pg-0", operation.Draining, rolls)},
			{"asked for by name", late().op("a", "pg-0", operation.Draining, rolls, func(op *operation.Operation) { op.Request.ID = "q" })},
			{"a member that is down", late().stops("pg-0").after(time.Minute).op("a", "pg-0", operation.Acting, rolls, skipDrain)},
			{"the window was added a moment ago", three("none").after(time.Minute).spec("none", 3, opens("05:00", "06:00")).op("a", "pg-0", operation.Draining, rolls)},
		},
	}
}
