package check

import (
	"fmt"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

func restCases() []cases {
	return []cases{strayCases(), openCases(), arrivedCases(), reasonCases(), stuckCases()}
}

func two() *run { return start().spec("none", 2).binds("pg-0").binds("pg-1").members("pg-0", "pg-1") }

func strayCases() cases {
	const hide = "hide all for 1m0s"
	other := func(e *trace.Event) { e.CVMs[1].InstanceID = "another" }
	orphan := func(fault, named, hold string) *run {
		return two().binds("pg-1").add(trace.Event{Kind: trace.Faulted, By: "fault", Text: fault}).called(cloud.Create, "pg-1").effected(1).
			binds("pg-1").removed().settled("no slot claims sim-pg-1 ("+named+")", "pg-0", "pg-1").then(func(e *trace.Event) {
			e.CVMs[1].VMUUID, e.CVMs[1].Name = "vm-of-pg-1", "sim-pg-1"
			e.Waiting = map[string]trace.Waiting{"pg": {Holds: []string{hold}}}
		})
	}
	return cases{
		id: "I25",
		bad: []named{
			{"one too many", two().settled("", "pg-0", "pg-1", "pg-7")},
			{"one of the same name", two().settled("", "pg-0", "pg-1", "pg-1").then(func(e *trace.Event) { e.CVMs[2].VMUUID = "vm-x" })},
			{"one is missing", two().settled("", "pg-0")},
			{"one that no Slot's name tells of, whatever the group says", two().settled("something else", "pg-0", "pg-1").then(func(e *trace.Event) {
				e.CVMs = append(e.CVMs, trace.CVM{Name: "foreign", VMUUID: "vm-x"})
			})},
			{"another instance", two().settled("", "pg-0", "pg-1").then(other)},
			{"left over by a Slot that is gone", two().binds("pg-1").removed().settled("", "pg-0", "pg-1")},
			{"such a one, and the group names another", orphan(hide, "vm-of-pg-12", rollout.ConditionOrphans)},
			{"such a one, which is told beside something else", orphan(hide, "vm-of-pg-1", rollout.HoldQuorum)},
			{"one that the platform showed, and the group names it", orphan("halt pg-1 for 1m0s", "vm-of-pg-1", rollout.ConditionOrphans)},
		},
		good: []named{
			{"all and no other", two().settled("", "pg-0", "pg-1")},
			{"left over by a Slot that is gone, and the group names it", orphan(hide, "vm-of-pg-1", rollout.ConditionOrphans)},
			{"one is missing, and the group says so", two().settled("pg-1 is lost", "pg-0")},
			{"one too many, and the group says so", two().settled("duplicate_instance", "pg-0", "pg-1", "pg-1").then(func(e *trace.Event) { e.CVMs[2].VMUUID = "vm-x" })},
			{"an instance that nobody tells", two().settled("", "pg-0", "pg-1").then(func(e *trace.Event) { e.CVMs[1].InstanceID = "" })},
			{"an instance that is not recorded yet", two().binds("pg-1").binding(func(r *group.SlotRecord) { r.InstanceID = "" }).settled("", "pg-0", "pg-1")},
			{"a Slot that waits for its CVM", start().spec("none", 1).binds("pg-0").binding(func(r *group.SlotRecord) { r.VMUUID, r.InstanceID = "", "" }).settled("")},
		},
	}
}

func openCases() cases {
	silent := func(e *trace.Event) { e.Resting = nil }
	return cases{
		id: "I26",
		bad: []named{
			{"a step is under way", two().phases("a", "pg-0", operation.Booting).settled("", "pg-0", "pg-1")},
			{"an intent", two().phases("a", "pg-1", operation.Draining).settled("", "pg-0", "pg-1")},
			{"and nobody says anything", two().phases("a", "pg-0", operation.Acting).settled("", "pg-0", "pg-1").then(silent)},
		},
		good: []named{
			{"it is done", two().phases("a", "pg-0", operation.Booting, operation.Done).settled("", "pg-0", "pg-1")},
			{"it failed", two().phases("a", "pg-0", operation.Booting, operation.Failed).settled("the rollout failed", "pg-0", "pg-1")},
			{"it is held, and the group says so", two().phases("a", "pg-0", operation.Draining).settled("held by a hook", "pg-0", "pg-1")},
		},
	}
}

func arrivedCases() cases {
	target := specOf("none", 2).Revision()
	at := func(r *run, revisions ...string) *run {
		for i, rev := range revisions {
			slot := group.SlotName("pg", i)
			r.admitted(slot, "boot-1-of-"+slot, rev, 1)
		}
		return r
	}
	excluded := func(s *group.Spec) {
		s.Instances = []group.InstanceSettings{{Ordinal: 1, ExcludeFromRollout: true}}
	}
	return cases{
		id: "L6",
		bad: []named{
			{"one does not serve", at(two(), target, target).stops("pg-1").settled("", "pg-0", "pg-1")},
			{"one runs something else", at(two(), target, "old").settled("", "pg-0", "pg-1")},
			{"one was not let in", at(two(), target).settled("", "pg-0", "pg-1")},
			{"one is not there", at(start().spec("none", 2).binds("pg-0").members("pg-0"), target).settled("", "pg-0")},
			{"one is left over", at(two(), target, target).binds("pg-2").settled("", "pg-0", "pg-1")},
		},
		good: []named{
			{"all is as it should be", at(two(), target, target).settled("", "pg-0", "pg-1")},
			{"one does not serve, and the group says so", at(two(), target, target).stops("pg-1").settled("pg-1 is down", "pg-0", "pg-1")},
			{"one is kept back", at(two().spec("none", 2, excluded), target, "old").settled("", "pg-0", "pg-1")},
			{"the group is gone", at(two(), target, "old").spec("none", 2).removed().settled("")},
		},
	}
}

func reasonCases() cases {
	silent := func(e *trace.Event) { e.Resting = nil }
	other := func(e *trace.Event) { e.Resting = map[string]string{"another": ""} }
	return cases{
		id: "L10",
		bad: []named{
			{"nobody says anything", two().settled("").then(silent)},
			{"another group does", two().settled("").then(other)},
			{"while a step is under way", two().phases("a", "pg-0", operation.Booting).settled("").then(silent)},
		},
		good: []named{
			{"it rests", two().settled("")},
			{"there is no group", start().settled("").then(silent)},
			{"it is gone", two().spec("none", 2).removed().settled("").then(silent)},
		},
	}
}

func stuckCases() cases {
	// waits ends r: pg has named these holds for the time d.
	waits := func(r *run, d time.Duration, holds ...string) *run {
		return r.settled("it waits", "pg-0", "pg-1").then(func(e *trace.Event) {
			e.Still, e.Waiting = 40*time.Minute, map[string]trace.Waiting{"pg": {For: d, Rollout: "r", Holds: holds}}
		})
	}
	failed := func(cause operation.Cause) *operation.Verdict { return &operation.Verdict{Cause: cause} }
	frozen := func() *run {
		return two().healed().operator("control/freeze/pg").rollout("r", operation.PausedState, nil)
	}
	const long = time.Hour
	healed := func(s *group.Spec) { s.AutoHealing = &group.AutoHealing{Replace: group.ReplaceAsk} }
	// refused is a rollout that failed by its deadline, after the platform refused n steps of pg-0.
	refused := func(n int) *run {
		r := two()
		for i := range n {
			r.op(fmt.Sprint("refused-", i), "pg-0", operation.Failed, func(op *operation.Operation) { op.Failure.Cause = operation.CauseRefused })
		}
		return waits(r.healed().after(latest).rollout("r", operation.FailedState, failed(operation.CauseProgress)), long, "rollout_failed")
	}
	// failsIn: pg-0's step reached only that phase in its time, long after all faults ended.
	failsIn := func(phase operation.Phase, r *run) *run {
		return r.healed().after(latest).rollout("r", operation.FailedState, &operation.Verdict{Slot: "pg-0", Cause: operation.CauseDeadline, Phase: phase})
	}
	failsHung := func(r *run) *run { return failsIn(operation.Joining, r) }
	// release asks for that release, gives pg-0 the revision of another one or of this one, and fails late.
	release := func(name string, given bool) *run {
		r := two().spec("none", 2, func(s *group.Spec) { s.Template.Compose = plan.ReleaseIs + name + "\n" })
		to := r.t[len(r.t)-1].Spec.Revision()
		if given {
			r.binds("pg-0").binding(func(b *group.SlotRecord) { b.Assigned = to })
		}
		r.healed().after(latest).rollout("r", operation.FailedState, failed(operation.CauseProgress)).then(func(e *trace.Event) { e.Rollout.To = to })
		return waits(r, long, "rollout_failed")
	}
	stopped := func(r *run) *run {
		return waits(r.stops("pg-1").healed(), long).then(func(e *trace.Event) { e.CVMs[1].Stopped = true })
	}
	return cases{
		id: Stuck,
		bad: []named{
			{"it waits for a step that hangs", waits(two().healed().rollout("r", operation.Running, nil).phases("a", "pg-0", operation.Draining), long)},
			{"a hold that ends by itself does not", waits(two().healed().rollout("r", operation.Running, nil), long, "busy", "max_unavailable")},
			{"the watchdog ended what hung", waits(two().healed().rollout("r", operation.Running, nil).after(latest).rollout("r", operation.FailedState, failed(operation.CauseProgress)), long, "rollout_failed")},
			{"a step was not done in time when all went right", waits(two().healed().after(latest).rollout("r", operation.FailedState, failed(operation.CauseDeadline)), long, "rollout_failed")},
			{"the platform refused it, and not as often as it is asked", refused(asked - 1)},
			{"its workload hung, and served again before its step's time was over", waits(failsHung(two().hangs("pg-0").serves("pg-0")), long, "rollout_failed")},
			{"its workload hung, and its step had not come to its boot", waits(failsIn(operation.Drained, two().hangs("pg-0")), long, "rollout_failed")},
			{"another one's workload hung", waits(failsHung(two().hangs("pg-1")), long, "rollout_failed")},
			{"a good release failed", release("two", true)},
			{"a bad release failed, and no member was given it", release(plan.IllRelease, false)},
			{"it says something new each time", waits(two().healed().rollout("r", operation.FailedState, failed(operation.CauseHook)), time.Minute)},
			{"what an operator froze is thawed", waits(frozen().operator("control/freeze/pg").removed(), long)},
			{"its set is founded, and a hold says that it changes", waits(two().spec("etcd", 1).healed(), long, "set_changing")},
			{"its set is not founded, and all are there", waits(start().spec("etcd", 2).binds("pg-0").binds("pg-1").healed(), long, "set_changing")},
			{"one is down, and a hold says that many are", waits(two().stops("pg-1").after(time.Minute).healed(), long, "heal_storm")},
			{"a voter's CVM is gone, and the others are a majority", waits(two().listed("pg-0", "pg-1", "pg-2").healed(), long)},
			{"a Slot is not wanted, and its CVM is there", waits(two().binds("pg-2").healed(), long).then(func(e *trace.Event) {
				e.CVMs = append(e.CVMs, trace.CVM{Name: "sim-pg-2", VMUUID: "vm-of-pg-2", InstanceID: "instance-of-pg-2"})
			})},
			{"a workload hangs, which its driver tells", waits(two().spec("patroni", 2, healed).stops("pg-1").healed(), long).then(func(e *trace.Event) { e.CVMs[1].Hung = true })},
			{"others serve, and a hold says that nobody has its data", waits(two().stops("pg-1").healed(), long, "no_data_source")},
			{"a CVM was stopped, and healing does nothing about it", stopped(two().spec("none", 2, healed))},
			{"a majority serves, and a hold says that none does", waits(two().listed("pg-0", "pg-1").healed(), long, "quorum")},
			{"a CVM carries a Slot's name, and no record binds it", waits(two().healed(), long).then(func(e *trace.Event) { e.CVMs[1].VMUUID = "vm-x" })},
		},
		good: []named{
			{"it rests", two().settled("")},
			{"a person has to give a disk up", waits(two().healed().rollout("r", operation.Running, nil), long, "delete_disks")},
			{"its rollout failed by what went wrong", waits(two().rollout("r", operation.FailedState, failed(operation.CauseDeadline)).healed(), long)},
			{"so many are down that healing leaves them to a person", waits(two().stops("pg-0").stops("pg-1").after(time.Minute).healed(), long, "heal_storm")},
			{"its voters' CVMs are gone", waits(start().spec("etcd", 2).binds("pg-0").binds("pg-1").members("pg-0", "pg-1").listed("pg-0", "pg-1", "pg-2").healed(), long).then(func(e *trace.Event) { e.CVMs = e.CVMs[:1] })},
			{"a Slot is not wanted, and its CVM was lost", waits(two().binds("pg-2").healed(), long)},
			{"its only member was to be replaced", waits(start().spec("none", 1).binds("pg-0").members("pg-0").healed(), long, "no_data_source")},
			{"a workload hangs, of which healing is told nothing", waits(two().spec("none", 2, healed).stops("pg-1").healed(), long).then(func(e *trace.Event) { e.CVMs[1].Hung = true })},
			{"nobody serves, of whom one could be rebuilt", waits(two().stops("pg-0").stops("pg-1").healed(), long, "no_data_source")},
			{"a CVM was stopped, and nothing heals it", stopped(two())},
			{"its set was never founded, and is to have fewer members", waits(start().spec("etcd", 3).binds("pg-0").binds("pg-1").spec("etcd", 2).healed(), long, "set_changing")},
			{"its workload hung in its step, and was replaced since", waits(failsHung(two().hangs("pg-0")).serves("pg-0"), long, "rollout_failed")},
			{"a bad release failed", release(plan.DeadRelease, true)},
			{"its hooks failed", waits(two().healed().rollout("r", operation.FailedState, failed(operation.CauseHook)), long)},
			{"the platform refused it as often as it is asked", refused(asked)},
			{"an operator has it frozen", waits(frozen(), long)},
			{"no majority serves", waits(two().listed("pg-0", "pg-1").stops("pg-1").healed(), long, "quorum")},
		},
	}
}

func paceCases() []cases {
	write := func(r *run, n int, every time.Duration) *run {
		for range n {
			r.commit(trace.Event{Key: "groups/pg/status"})
			r.now += every - time.Second
		}
		return r
	}
	call := func(r *run, n int, every time.Duration) *run {
		for range n {
			r.called(cloud.Update, "pg-0")
			r.now += every - time.Second
		}
		return r
	}
	const alone = commitsOfUpkeep + commitsOfStep*stepsInMinute
	member := func() *run { return start().serves("pg-0").after(time.Hour) }
	return []cases{
		{
			id: "pace-commits",
			bad: []named{
				{"no time passes", write(member(), alone+1, 0)},
				{"all along", write(member(), alone+1, 100*time.Millisecond)},
				{"after a quiet hour", write(write(member(), 10, time.Second).after(time.Hour), alone+1, time.Millisecond)},
			},
			good: []named{
				{"as many as may be", write(member(), alone, time.Millisecond)},
				{"spread over an hour", write(member(), 4*alone, time.Second)},
				{"more members", write(member().serves("pg-1"), alone+1, time.Millisecond)},
				{"many records in one transaction", func() *run {
					r := member().binds("pg-0")
					r.together = true
					return write(r, 2*alone, time.Second)
				}()},
			},
		},
		{
			id: "pace-calls",
			bad: []named{
				{"no time passes", call(start(), callsInMinute+1, 0)},
				{"one a second", call(start(), callsInMinute+1, time.Second)},
				{"also while others get none", call(start().called(cloud.Update, "pg-1"), callsInMinute+1, time.Second)},
			},
			good: []named{
				{"as many as may be", call(start(), callsInMinute, time.Second)},
				{"spread", call(start(), 10*callsInMinute, 5*time.Second)},
				{"by Slot", call(start(), callsInMinute, time.Second).called(cloud.Update, "pg-1")},
			},
		},
	}
}

// story is a complete update of a member, seen by every Checker.
func story() *run {
	target := specOf("patroni", 3, minReady(2)).Revision()
	to := func(op *opRecord) { op.To, op.From = target, "old" }
	hash := func(e *trace.Event) { e.Call.Hash = "hash-of-" + target }
	r := start().spec("patroni", 3, minReady(2)).entered("groups/pg/accepted")
	for i := range 3 {
		slot := group.SlotName("pg", i)
		r.binds(slot).allowed(slot, "old", target).admitted(slot, "boot-1-of-"+slot, "old", 1).serves(slot)
	}
	r.leads("pg-0").after(time.Minute)
	for i, slot := range []string{"pg-2", "pg-1", "pg-0"} {
		r.op(slot, slot, operation.Draining, to)
		if slot == "pg-0" {
			r.op(slot, slot, operation.Draining, handOver).leads("pg-1")
		} else {
			r.phases(slot, slot, operation.Draining)
		}
		r.drained(slot).phases(slot, slot, operation.Drained, operation.Acting).called(cloud.Update, slot, hash).stops(slot).effected(i+1).answered(i+1, trace.OK)
		r.phases(slot, slot, operation.Booting).admitted(slot, "boot-2", target, 2).servesAs(slot, "boot-2")
		r.phases(slot, slot, operation.Joining, operation.Settling, operation.Done).allowed(slot, target).after(time.Minute)
	}
	return r.settled("", "pg-0", "pg-1", "pg-2")
}
