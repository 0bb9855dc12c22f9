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
	skewed := func(r *run, of, by string) *run {
		return r.add(trace.Event{Kind: trace.Faulted, By: "fault", Text: "skew " + of + " by " + by})
	}
	hour := func(of, by string) *run {
		return skewed(three("none", opens("01:00", "02:00")).after(10*time.Minute), of, by)
	}
	const leads, other = "coordinator-0", "coordinator-1"
	return cases{
		id: "R97",
		bad: []named{
			{"hours before the window", late().op("a", "pg-0", operation.Draining, rolls)},
			{"hours before, by any clock of a plan", skewed(late(), leads, "1h0m0s").op("a", "pg-0", operation.Draining, rolls)},
			{"in an hour that the clock of another coordinator shows", hour(other, "1h0m0s").op("a", "pg-0", operation.Draining, rolls)},
			{"a clock that is not so far ahead", hour(leads, "5m0s").op("a", "pg-0", operation.Draining, rolls)},
			{"a clock that is set back", skewed(three("none", opens("00:11", "02:00")).after(10*time.Minute), leads, "-1m0s").after(20*time.Second).op("a", "pg-0", operation.Draining, rolls)},
			{"a clock that was set right long ago", hour(leads, "1h0m0s").healed().after(time.Minute).op("a", "pg-0", operation.Draining, rolls)},
			{"a replacement", late().op("a", "pg-0", operation.Draining, rolls, func(op *operation.Operation) { op.Kind = operation.Replace })},
			{"after the window", three("none", opens("00:00", "00:01")).after(30*time.Minute).op("a", "pg-0", operation.Draining, rolls)},
		},
		good: []named{
			{"in the window", three("none", opens("00:00", "06:00")).after(10*time.Minute).op("a", "pg-0", operation.Draining, rolls)},
			{"in an hour that the leader's clock shows", hour(leads, "1h0m0s").op("a", "pg-0", operation.Draining, rolls)},
			{"an operator overrides the window", late().operator("control/override/pg/outside_window").op("a", "pg-0", operation.Draining, rolls)},
			{"asked for by name", late().op("a", "pg-0", operation.Draining, rolls, func(op *operation.Operation) { op.Request.ID = "q" })},
			{"a member that is down", late().stops("pg-0").after(time.Minute).op("a", "pg-0", operation.Acting, rolls, skipDrain)},
			{"the window was added a moment ago", three("none").after(time.Minute).spec("none", 3, opens("05:00", "06:00")).op("a", "pg-0", operation.Draining, rolls)},
		},
	}
}
