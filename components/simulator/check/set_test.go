package check

import (
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// lists reports the members of the set of pg.
func (r *run) lists(voters []string, learners ...string) *run {
	return r.add(trace.Event{Kind: trace.Listed, By: voters[0], Group: "pg", Voters: voters, Learners: learners})
}

func setCases() cases {
	const draining = operation.Draining
	all := []string{"pg-0", "pg-1", "pg-2"}
	set := func() *run { return three("etcd", maxUnavailable(3)).lists(all) }
	return cases{
		id: "I2-set",
		bad: []named{
			{"a voter goes while another is down", set().stops("pg-2").after(EvidenceAge).lists([]string{"pg-1", "pg-2"})},
			{"a second one comes before the first has its vote", set().lists(all, "pg-3").lists(all, "pg-3", "pg-4")},
			{"a voter is drained while one waits for its vote", set().lists(all, "pg-3").after(time.Minute).phases("a", "pg-0", draining)},
			{"a voter is taken out whose agent was silent a moment ago", set().lists(all, "pg-3").mutes("pg-2").after(lostAfter/2).lists([]string{"pg-0", "pg-1"}, "pg-3")},
			{"a voter is taken out while one waits for its vote", set().lists(all, "pg-3").after(time.Minute).lists([]string{"pg-0", "pg-1"}, "pg-3")},
		},
		good: []named{
			{"one comes and gets its vote", set().lists(all, "pg-3").lists([]string{"pg-0", "pg-1", "pg-2", "pg-3"})},
			{"one that is down goes", set().stops("pg-2").after(EvidenceAge).lists([]string{"pg-0", "pg-1"})},
			{"one that is down goes before another has its vote", set().lists(all, "pg-3").after(time.Minute).stops("pg-2").after(EvidenceAge).lists([]string{"pg-0", "pg-1"}, "pg-3")},
			{"nobody may know yet that another is down", set().stops("pg-2").lists([]string{"pg-1", "pg-2"})},
			{"the one that waits is taken away", set().lists(all, "pg-3").after(time.Minute).phases("a", "pg-3", draining)},
			{"one whose agent nobody hears is repaired while one waits for its vote",
				set().lists(all, "pg-3").mutes("pg-1").after(lostAfter).phases("a", "pg-1", draining)},
			{"one whose agent nobody hears is taken out while one waits for its vote",
				set().lists(all, "pg-3").mutes("pg-2").after(lostAfter).lists([]string{"pg-0", "pg-1"}, "pg-3")},
			{"the first that it lists", three("etcd").lists([]string{"pg-0"})},
		},
	}
}
