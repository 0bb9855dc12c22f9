package check

import (
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// three members of a workload, all healthy.
func three(workload string, change ...func(*group.Spec)) *run {
	return start().spec(workload, 3, change...).members("pg-0", "pg-1", "pg-2")
}

func availabilityCases() []cases {
	return []cases{budgetCases(), quorumCases(), leaderCases(), haltCases(), freezeCases(), pathCases()}
}

func budgetCases() cases {
	const draining, acting = operation.Draining, operation.Acting
	return cases{
		id: "I1",
		bad: []named{
			{"a second one is drained", three("none").phases("a", "pg-0", draining).phases("b", "pg-1", draining)},
			{"one is restarted without a drain while another boots", three("none").
				phases("a", "pg-0", draining, operation.Drained, acting, operation.Booting).stops("pg-0").
				op("b", "pg-1", operation.Drained, skipDrain).op("b", "pg-1", acting)},
			{"one is down by itself for long", three("none").stops("pg-2").after(EvidenceAge).phases("a", "pg-0", draining)},
			{"the step failed and its member does not serve", three("none").phases("a", "pg-0", draining, acting).stops("pg-0").
				phases("a", "pg-0", operation.Booting, operation.Failed).phases("b", "pg-1", draining)},
			{"a third one of two that may", three("none", maxUnavailable(2)).phases("a", "pg-0", draining).phases("b", "pg-1", draining).phases("c", "pg-2", draining)},
			{"two in one transaction", func() *run {
				r := three("none")
				r.together = true
				return r.phases("a", "pg-0", draining).phases("b", "pg-1", draining)
			}()},
			{"another one went down while it was drained", three("none").phases("a", "pg-0", draining).stops("pg-1").after(time.Minute).phases("a", "pg-0", acting)},
			{"a third one, when it is called", three("none", maxUnavailable(2)).phases("a", "pg-0", draining).phases("b", "pg-1", draining).stops("pg-2").
				after(time.Minute).phases("a", "pg-0", acting)},
			{"a refresh that has a call", three("none").op("a", "pg-0", operation.Drained, refresh).phases("a", "pg-0", acting).op("b", "pg-1", operation.Drained, refresh).phases("b", "pg-1", acting)},
			{"it is done, and did not come back", three("none").phases("a", "pg-0", draining, acting).stops("pg-0").
				phases("a", "pg-0", operation.Booting, operation.Done).phases("b", "pg-1", draining)},
			{"lost after its step, and for long", three("none").phases("a", "pg-0", draining, acting).stops("pg-0").phases("a", "pg-0", operation.Booting).
				serves("pg-0").stops("pg-0").phases("a", "pg-0", operation.Done).after(EvidenceAge).phases("b", "pg-1", draining)},
			{"the next attempt at one that failed is called off", three("none").phases("a", "pg-0", draining, acting).stops("pg-0").
				phases("a", "pg-0", operation.Booting, operation.Failed).op("c", "pg-0", operation.Drained, skipDrain).phases("c", "pg-0", operation.Aborted).
				phases("b", "pg-1", draining)},
			{"one of three beside an extra one that does not serve", surged().stops("pg-3").after(EvidenceAge).phases("a", "pg-0", draining)},
			{"one of three, where nobody may be spared and another one is not heard", start().spec("none", 3, maxUnavailable(0)).members("pg-0", "pg-1", "pg-2").
				mutes("pg-1").after(lostAfter).phases("a", "pg-0", draining)},
			{"one that is not heard for a moment, where nobody may be spared", start().spec("none", 3, maxUnavailable(0)).members("pg-0", "pg-1", "pg-2").
				mutes("pg-0").after(EvidenceAge).phases("a", "pg-0", draining)},
			{"a second one beside one extra", surged().phases("a", "pg-0", draining).phases("b", "pg-1", draining)},
			{"a member whose CVM never came up counts", start().spec("none", 3).members("pg-0", "pg-1").binds("pg-2").after(EvidenceAge).phases("a", "pg-0", draining)},
		},
		good: []named{
			{"one after the other", three("none").phases("a", "pg-0", draining, acting).stops("pg-0").
				phases("a", "pg-0", operation.Booting, operation.Joining).serves("pg-0").phases("a", "pg-0", operation.Settling, operation.Done).
				phases("b", "pg-1", draining)},
			{"one that nobody hears, where nobody may be spared", start().spec("none", 3, maxUnavailable(0)).members("pg-0", "pg-1", "pg-2").
				mutes("pg-0").after(lostAfter).phases("a", "pg-0", draining)},
			{"one of three beside an extra one", surged().phases("a", "pg-0", draining)},
			{"another one went down a moment before its call", three("none").phases("a", "pg-0", draining).stops("pg-1").phases("a", "pg-0", acting)},
			{"it was down when its drain began, and came back", three("none").stops("pg-0").op("a", "pg-0", draining, wasDown).
				serves("pg-0").stops("pg-1").after(time.Minute).phases("a", "pg-0", acting)},
			{"refreshes, which take nobody away", three("none").op("a", "pg-0", operation.Drained, refresh).op("b", "pg-1", operation.Drained, refresh).phases("a", "pg-0", operation.Drained).phases("b", "pg-1", operation.Drained)},
			{"one that was called off serves on", three("none").phases("a", "pg-0", draining, operation.Aborted).phases("b", "pg-1", draining)},
			{"lost a moment before its step was done", three("none").phases("a", "pg-0", draining, acting).stops("pg-0").
				phases("a", "pg-0", operation.Booting, operation.Joining).serves("pg-0").phases("a", "pg-0", operation.Settling).stops("pg-0").
				phases("a", "pg-0", operation.Done).phases("b", "pg-1", draining)},
			{"lost a moment before its step was called off", three("none").phases("a", "pg-0", draining).stops("pg-0").phases("a", "pg-0", operation.Aborted).
				phases("b", "pg-1", draining)},
			{"two of two that may", three("none", maxUnavailable(2)).phases("a", "pg-0", draining).phases("b", "pg-1", draining)},
			{"the target is the one that is down", three("none").stops("pg-2").after(EvidenceAge).op("a", "pg-2", acting, skipDrain)},
			{"nobody may know yet that one is down", three("none").stops("pg-2").phases("a", "pg-0", draining)},
			{"a creation takes nobody away", three("none").phases("a", "pg-0", draining).op("b", "pg-1", acting, kind(operation.Create, operation.PartCreate))},
			{"a Slot that was never filled", start().spec("none", 3).members("pg-0", "pg-1").phases("a", "pg-0", draining)},
			{"one that is not wanted any more", three("none").spec("none", 2).after(time.Minute).phases("a", "pg-0", draining).
				op("b", "pg-2", draining, kind(operation.Delete, operation.PartDelete))},
			{"a budget that was lowered a moment ago", three("none", maxUnavailable(2)).phases("a", "pg-0", draining).spec("none", 3, maxUnavailable(1)).phases("b", "pg-1", draining)},
		},
	}
}

func wasDown(op *operation.Operation) { op.Before.Unavailable = true }

func quorumCases() cases {
	const draining = operation.Draining
	all := maxUnavailable(3)
	allow := func(s *group.Spec) { s.UpdatePolicy.Interruption = group.InterruptionAllow }
	// Of four voters one is down.
	four := func() *run {
		return start().spec("etcd", 4, all).members("pg-0", "pg-1", "pg-2").lists([]string{"pg-0", "pg-1", "pg-2", "pg-3"}).after(time.Minute)
	}
	applied := func(op *operation.Operation) { op.Call.Applied = []operation.Part{operation.PartResources} }
	half := func() *run { return three("etcd", all).op("a", "pg-0", operation.Drained, applied) }
	return cases{
		id: "I2",
		bad: []named{
			{"a restart leaves no set", four().op("a", "pg-2", draining, kind(operation.Restart, operation.PartRestart))},
			{"it leaves its set before, and the others are none", four().stops("pg-1").after(time.Minute).op("a", "pg-2", draining, kind(operation.Replace, operation.PartDelete))},
			{"a second of three", three("etcd", all).phases("a", "pg-0", draining).phases("b", "pg-1", draining)},
			{"one of three while another is down", three("consul", all).stops("pg-2").after(EvidenceAge).phases("a", "pg-0", draining)},
			{"another one comes to the next part of its change", half().phases("b", "pg-1", draining).op("a", "pg-0", operation.Acting, applied)},
			{"another one does not serve between two parts", half().stops("pg-0").after(time.Minute).phases("b", "pg-1", draining)},
			{"one of two", start().spec("etcd", 2).members("pg-0", "pg-1").phases("a", "pg-0", draining)},
			{"one that is removed is missed", three("consul", all).lists([]string{"pg-0", "pg-1", "pg-2"}).spec("consul", 2).stops("pg-1").after(time.Minute).
				op("a", "pg-2", operation.Drained, kind(operation.Delete, operation.PartDelete))},
			{"another voter went down while it was drained", three("etcd", all).phases("a", "pg-0", draining).stops("pg-1").after(time.Minute).phases("a", "pg-0", operation.Acting)},
			{"the same without a drain", three("etcd", all).op("a", "pg-0", operation.Drained, skipDrain).stops("pg-1").after(time.Minute).phases("a", "pg-0", operation.Acting)},
			{"the set grew while it was drained, by those who do not serve", three("etcd", all).phases("a", "pg-0", draining).
				lists([]string{"pg-0", "pg-1", "pg-2", "pg-3", "pg-4", "pg-5"}).after(time.Minute).phases("a", "pg-0", operation.Acting)},
			{"one of three while the set lists a fourth that is gone", three("etcd", all).lists([]string{"pg-0", "pg-1", "pg-2", "pg-3"}).stops("pg-2").after(EvidenceAge).phases("a", "pg-0", draining)},
			{"the third of five", start().spec("etcd", 5, maxUnavailable(5)).members("pg-0", "pg-1", "pg-2", "pg-3", "pg-4").
				stops("pg-4").after(EvidenceAge).phases("a", "pg-0", draining).phases("b", "pg-1", draining)},
		},
		good: []named{
			{"it leaves its set before, and the others are a majority then", four().op("a", "pg-2", draining, kind(operation.Replace, operation.PartDelete))},
			{"one of three", three("etcd", all).phases("a", "pg-0", draining)},
			{"another one serves between two parts of its change", half().phases("b", "pg-1", draining)},
			{"two of five", start().spec("etcd", 5, maxUnavailable(5)).members("pg-0", "pg-1", "pg-2", "pg-3", "pg-4").
				phases("a", "pg-0", draining).phases("b", "pg-1", draining)},
			{"the one that is down", three("etcd").stops("pg-1").stops("pg-2").after(EvidenceAge).op("a", "pg-2", operation.Acting, skipDrain)},
			{"one of three where the set lists no more", three("etcd", all).lists([]string{"pg-0", "pg-1", "pg-2"}).phases("a", "pg-0", draining)},
			{"one of two where the spec allows it", start().spec("etcd", 2, allow).members("pg-0", "pg-1").phases("a", "pg-0", draining)},
			{"one of three that is removed, the others being well", three("consul", all).lists([]string{"pg-0", "pg-1", "pg-2"}).spec("consul", 2).after(time.Minute).
				op("a", "pg-2", operation.Drained, kind(operation.Delete, operation.PartDelete))},
			{"one of two that is removed", start().spec("etcd", 2).members("pg-0", "pg-1").lists([]string{"pg-0", "pg-1"}).spec("etcd", 1).after(time.Minute).
				op("a", "pg-1", operation.Drained, kind(operation.Delete, operation.PartDelete))},
			{"one that is removed is out of its set, while another is down", three("etcd", all).lists([]string{"pg-0", "pg-1"}).spec("etcd", 2).stops("pg-1").after(time.Minute).
				op("a", "pg-2", operation.Acting, kind(operation.Delete, operation.PartDelete))},
			{"its group goes", three("etcd", all).lists([]string{"pg-0", "pg-1", "pg-2"}).deletes(false).stops("pg-1").after(time.Minute).
				op("a", "pg-2", operation.Drained, kind(operation.Delete, operation.PartDelete))},
			{"another voter went down a moment before its call", three("etcd", all).phases("a", "pg-0", draining).stops("pg-1").phases("a", "pg-0", operation.Acting)},
			{"the only one", start().spec("etcd", 1).members("pg-0").phases("a", "pg-0", draining)},
			{"members that do not vote", three("patroni", all).phases("a", "pg-0", draining).phases("b", "pg-1", draining)},
			{"nobody may know yet that another is down", three("etcd", all).stops("pg-2").phases("a", "pg-0", draining)},
			{"Slots that did not join yet are no voters", start().spec("etcd", 5).members("pg-0", "pg-1", "pg-2").phases("a", "pg-0", draining)},
		},
	}
}

func handOver(op *operation.Operation) {
	op.Transfer = &operation.Transfer{ExpectedLeader: op.Slot, Candidates: []string{"pg-1"}}
}

func leaderCases() cases {
	const draining, acting = operation.Draining, operation.Acting
	led := func() *run { return three("patroni").leads("pg-0").after(time.Minute) }
	at := func(r *run, revisions ...string) *run {
		for i, rev := range revisions {
			slot := group.SlotName("pg", i)
			r.admitted(slot, "boot-1-of-"+slot, rev, 1)
		}
		return r
	}
	late := func(op *operation.Operation) { op.Times.DrainBy = op.Entered[acting] }
	return cases{
		id: "I3",
		bad: []named{
			{"it leads when it is stopped", led().phases("a", "pg-0", draining, operation.Drained, acting)},
			{"it is restarted without a drain", led().op("a", "pg-0", acting, skipDrain, kind(operation.Restart, operation.PartRestart))},
			{"before the others run the target", at(led(), "old", "new", "old").op("a", "pg-0", draining, handOver)},
			{"it is replaced", led().phases("a", "pg-0", draining, operation.Drained).op("a", "pg-0", acting, kind(operation.Replace, operation.PartDelete))},
			{"it is removed while others serve", three("patroni").leads("pg-2").spec("patroni", 2).after(time.Minute).op("a", "pg-2", acting, kind(operation.Delete, operation.PartDelete))},
		},
		good: []named{
			{"another took over", at(led(), "old", "new", "new").op("a", "pg-0", draining, handOver).leads("pg-1").phases("a", "pg-0", operation.Drained, acting)},
			{"the drain's time is over", led().phases("a", "pg-0", draining, operation.Drained).op("a", "pg-0", acting, late)},
			{"a workload without a driver", three("none").leads("pg-0").after(time.Minute).phases("a", "pg-0", draining, acting)},
			{"of a group that is being deleted", led().operator("control/delete/pg").op("a", "pg-0", acting, kind(operation.Delete, operation.PartDelete))},
			{"before the others, to relieve it", at(led(), "old", "old", "old").op("a", "pg-0", draining, handOver, func(op *operation.Operation) { op.Transfer.Relief = true })},
			{"before the others, as a person asked", at(led(), "old", "old", "old").op("a", "pg-0", draining, handOver, func(op *operation.Operation) { op.Actor = operation.ActorOperator })},
			{"before the others, a restart", at(led(), "old", "old", "old").op("a", "pg-0", draining, handOver, kind(operation.Restart, operation.PartRestart))},
			{"a follower", led().phases("a", "pg-1", draining, acting)},
			{"the only member", start().spec("patroni", 1).members("pg-0").leads("pg-0").after(time.Minute).phases("a", "pg-0", draining, acting)},
			{"a leader that is down", led().stops("pg-0").op("a", "pg-0", acting, skipDrain)},
			{"leadership came a moment ago", led().phases("a", "pg-1", draining, operation.Drained).leads("pg-1").phases("a", "pg-1", acting)},
			{"a Slot below the partition stays behind", at(three("patroni", func(s *group.Spec) { s.UpdatePolicy.Partition = 1 }).leads("pg-2").after(time.Minute), "old", "new", "old").
				op("a", "pg-2", draining, handOver)},
			{"before one that was lost and is out of the set", at(three("etcd").lists([]string{"pg-0", "pg-1", "pg-2"}).leads("pg-0").lists([]string{"pg-0", "pg-2"}).after(time.Minute), "old", "old", "new").
				op("a", "pg-0", draining, handOver)},
			{"the others are out of its set", three("etcd").lists([]string{"pg-0", "pg-1", "pg-2"}).leads("pg-0").spec("etcd", 1).lists([]string{"pg-0"}).after(time.Minute).phases("a", "pg-0", draining, acting)},
			{"the last one of a group that goes", led().stops("pg-1").stops("pg-2").spec("patroni", 0).after(time.Minute).op("a", "pg-0", acting, kind(operation.Delete, operation.PartDelete))},
		},
	}
}

func haltCases() cases {
	const draining, acting = operation.Draining, operation.Acting
	failed := func() *run {
		return three("none", maxUnavailable(3)).phases("a", "pg-0", draining, acting).stops("pg-0").phases("a", "pg-0", operation.Booting, operation.Failed)
	}
	refused := func(op *operation.Operation) { op.Failure.Cause = operation.CauseRefused }
	asked := func(op *operation.Operation) { op.Request.ID = "q1" }
	byRollout := func(op *operation.Operation) { op.Actor = operation.ActorRollout }
	elsewhere := func(op *operation.Operation) { op.Rollout = "another" }
	return cases{
		id: "I6",
		bad: []named{
			{"the next Slot", failed().phases("b", "pg-1", draining)},
			{"the next Slot, long after", failed().after(time.Hour).phases("b", "pg-1", draining)},
			{"the next Slot by another leader", failed().lead("coordinator-1", 2).op("b", "pg-1", operation.Drained, skipDrain).op("b", "pg-1", acting)},
			{"an operator asked for something in another group", failed().asks("r1", store.RequestRetry, "").then(func(e *trace.Event) { e.Asked.Group = "kv" }).phases("b", "pg-1", draining)},
			{"a person asked for it before it failed", three("none", maxUnavailable(3)).op("c", "pg-0", operation.Draining, asked).op("c", "pg-0", operation.Done, asked).phases("a", "pg-0", draining, acting).stops("pg-0").
				phases("a", "pg-0", operation.Failed).phases("b", "pg-1", draining)},
			{"another Slot was asked for, and refused", failed().op("c", "pg-2", operation.Draining, asked).op("c", "pg-2", operation.Failed, asked, refused).phases("b", "pg-1", draining)},
			{"an operator freezes, drains or protects something meanwhile", failed().operator(freezeSwitch).removed().operator("control/drain/pg-2").operator("control/protect/kv-0").phases("b", "pg-1", draining)},
			{"a person lets the failure of an earlier step go on, and the open step fails", three("none", maxUnavailable(3)).phases("a", "pg-0", draining, acting).stops("pg-0").
				phases("b", "pg-1", draining, acting).stops("pg-1").phases("a", "pg-0", operation.Failed).asks("r1", store.RequestRetry, "").
				phases("b", "pg-1", operation.Failed).phases("c", "pg-2", draining)},
			{"the rollout's record says that it failed", three("none").rollout("r", operation.FailedState, nil).op("b", "pg-1", operation.Draining, byRollout)},
			{"its record says so in the same transaction", func() *run {
				r := three("none")
				r.together = true
				return r.rollout("r", operation.FailedState, nil).op("b", "pg-1", operation.Draining, byRollout)
			}()},
			{"the platform's failure of a boot", three("none", maxUnavailable(3)).phases("a", "pg-2", draining, acting).stops("pg-2").
				op("a", "pg-2", operation.Failed, func(op *operation.Operation) { op.Failure.Cause = operation.CauseBootError }).phases("b", "pg-0", draining)},
		},
		good: []named{
			{"its rollout is let go on", three("none").rollout("r", operation.FailedState, nil).rollout("r", operation.Running, nil).op("b", "pg-1", operation.Draining, byRollout)},
			{"the same in one transaction, the step first", func() *run {
				r := three("none").rollout("r", operation.FailedState, nil)
				r.together = true
				return r.op("b", "pg-1", operation.Draining, byRollout).rollout("r", operation.Running, nil)
			}()},
			{"another rollout failed", three("none").rollout("q", operation.FailedState, nil).op("b", "pg-1", operation.Draining, byRollout)},
			{"a repair while its rollout stands failed", three("none").rollout("r", operation.FailedState, nil).op("b", "pg-1", operation.Draining, byRollout, func(op *operation.Operation) { op.Actor = operation.ActorHealing })},
			{"the Slot serves again", failed().serves("pg-0").phases("b", "pg-1", draining)},
			{"a person lets it go on", failed().asks("r1", store.RequestRetry, "").phases("b", "pg-1", draining)},
			{"a person lets the failure of a later step go on, and the open step fails", three("none", maxUnavailable(3)).phases("b", "pg-1", operation.Drained, acting).stops("pg-1").
				phases("a", "pg-0", draining, acting).stops("pg-0").phases("a", "pg-0", operation.Failed).asks("r1", store.RequestRetry, "").
				phases("b", "pg-1", operation.Failed).phases("c", "pg-2", draining)},
			{"a corrected spec", failed().spec("none", 3, maxUnavailable(3)).phases("b", "pg-1", draining)},
			{"the same Slot once more", failed().phases("b", "pg-0", draining)},
			{"asked for by a person", failed().op("b", "pg-1", draining, asked)},
			{"a step that was recorded before", three("none", maxUnavailable(3)).phases("b", "pg-1", operation.Draining).phases("a", "pg-0", draining, acting).stops("pg-0").
				phases("a", "pg-0", operation.Failed).phases("b", "pg-1", draining)},
			{"the platform refused, nothing happened", three("none", maxUnavailable(3)).phases("a", "pg-0", draining, acting).stops("pg-0").op("a", "pg-0", operation.Failed, refused).
				phases("b", "pg-1", draining)},
			{"a creation", failed().op("b", "pg-1", draining, kind(operation.Create, operation.PartCreate))},
			{"a restart is no step of a rollout", failed().op("b", "pg-1", draining, kind(operation.Restart, operation.PartRestart))},
			{"a person asked for the one that failed", failed().op("c", "pg-0", operation.Draining, asked).phases("b", "pg-1", draining)},
			{"asked for by a person, and refused before", failed().op("c", "pg-1", operation.Draining, asked).op("c", "pg-1", operation.Failed, asked, refused).phases("b", "pg-1", draining)},
			{"by an operator", failed().op("b", "pg-1", draining, func(op *operation.Operation) { op.Actor = operation.ActorOperator })},
			{"a Slot that is kept back failed", three("none", maxUnavailable(3), func(s *group.Spec) { s.UpdatePolicy.Partition = 1 }).
				phases("a", "pg-0", draining, acting).stops("pg-0").phases("a", "pg-0", operation.Failed).phases("b", "pg-1", draining)},
			{"another rollout", failed().op("b", "pg-1", draining, elsewhere)},
		},
	}
}

func freezeCases() cases {
	frozen := func() *run { return three("none").operator(freezeSwitch) }
	byHealing := func(op *operation.Operation) { op.Actor, op.Kind = operation.ActorHealing, operation.Restart }
	const draining, acting = operation.Draining, operation.Acting
	return cases{
		id: "I6-freeze",
		bad: []named{
			{"a step of a rollout", frozen().after(time.Minute).phases("a", "pg-0", draining)},
			{"a repair", frozen().after(time.Minute).op("a", "pg-0", draining, byHealing)},
			{"its group is frozen", three("none").operator(freezeOf("pg")).after(time.Minute).phases("a", "pg-0", draining)},
			{"frozen anew", frozen().removed().operator(freezeSwitch).after(time.Minute).phases("a", "pg-0", draining)},
		},
		good: []named{
			{"a moment after, unknown yet", frozen().phases("a", "pg-0", draining)},
			{"what is under way", three("none").phases("a", "pg-0", draining).operator(freezeSwitch).after(time.Minute).phases("a", "pg-0", acting)},
			{"thawed", frozen().after(time.Minute).operator(freezeSwitch).removed().phases("a", "pg-0", draining)},
			{"another group is frozen", three("none").operator(freezeOf("kv")).after(time.Minute).phases("a", "pg-0", draining)},
			{"another switch", three("none").operator("control/queue/r1").after(time.Minute).phases("a", "pg-0", draining)},
		},
	}
}

func pathCases() cases {
	open := func() *run {
		return three("none").admitted("pg-0", "b1", "old", 1).phases("a", "pg-0", operation.Acting)
	}
	there := func() *run { return open().admitted("pg-0", "b2", "new", 2) }
	return cases{
		id: "I7",
		bad: []named{
			{"forward, back and forward again", there().admitted("pg-0", "b3", "old", 3).admitted("pg-0", "b4", "new", 4)},
			{"its record is written between", there().admitted("pg-0", "b3", "old", 3).binds("pg-0").admitted("pg-0", "b4", "new", 4)},
			{"over a third one", there().admitted("pg-0", "b3", "other", 3).admitted("pg-0", "b4", "new", 4)},
			{"back twice", there().admitted("pg-0", "b3", "old", 3).admitted("pg-0", "b4", "other", 4).admitted("pg-0", "b5", "old", 5)},
			{"also over an eviction", there().admitted("pg-0", "b2", "new", 2).removed().admitted("pg-0", "b3", "old", 3).admitted("pg-0", "b4", "new", 4)},
		},
		good: []named{
			{"once forward", there()},
			{"once forward and once back", there().admitted("pg-0", "b3", "old", 3)},
			{"no rollout is under way", three("none").admitted("pg-0", "b1", "old", 1).admitted("pg-0", "b2", "new", 2).admitted("pg-0", "b3", "old", 3).admitted("pg-0", "b4", "new", 4)},
			{"an operator's own steps", three("none").admitted("pg-0", "b1", "old", 1).op("a", "pg-0", operation.Acting, func(op *operation.Operation) { op.Rollout = "" }).
				admitted("pg-0", "b2", "new", 2).admitted("pg-0", "b3", "old", 3).admitted("pg-0", "b4", "new", 4)},
			{"another Boot of the same", there().admitted("pg-0", "b3", "new", 3)},
			{"a person decided between", there().admitted("pg-0", "b3", "old", 3).asks("r1", store.RequestRetry, "").admitted("pg-0", "b4", "new", 4)},
			{"it is made anew between", there().admitted("pg-0", "b3", "old", 3).binds("pg-0").binding(func(r *group.SlotRecord) { r.VMUUID, r.InstanceID = "", "" }).binds("pg-0").admitted("pg-0", "b4", "new", 4)},
			{"two Slots", there().admitted("pg-1", "c1", "old", 1).phases("b", "pg-1", operation.Acting).admitted("pg-1", "c2", "new", 2)},
		},
	}
}

func diskCases() []cases {
	gone := func(slot string) func(*trace.Event) {
		return func(e *trace.Event) { e.Call.VMUUID = "vm-of-" + slot }
	}
	remove := func(op *operation.Operation) {
		op.Kind, op.Call.Part, op.To = operation.Delete, operation.PartDelete, ""
	}
	replace := func(op *operation.Operation) {
		op.Kind, op.Call.Part, op.Request.ID, op.Actor = operation.Replace, operation.PartDelete, "q1", operation.ActorOperator
	}
	heals := func(op *operation.Operation) {
		op.Kind, op.Call.Part, op.Actor = operation.Replace, operation.PartDelete, operation.ActorHealing
	}
	healing := func(replace string) func(*group.Spec) {
		return func(s *group.Spec) { s.AutoHealing = &group.AutoHealing{Replace: replace} }
	}
	leaves := func(op *operation.Operation) { op.Set.Leaves = true }
	unasked := func(op *operation.Operation) { op.Request.ID = "" }
	voters := func() *run { return three("etcd").lists([]string{"pg-0", "pg-1", "pg-2"}) }
	// deletes is for the call of an Operation that was made as a removal.
	deletes := func(op *operation.Operation) { op.Call.Part = operation.PartDelete }
	kept := func(s *group.Spec) { s.PreservedState.Disk = "data" }
	scaledIn := func(change ...func(*group.Spec)) *run {
		return three("none").givesUp("pg-2").spec("none", 2, change...).after(time.Minute)
	}
	// rejoined: a member left its set to be removed, is wanted again, and was added as a learner.
	rejoined := func() *run {
		return voters().givesUp("pg-2").spec("etcd", 2).op("a", "pg-2", operation.Drained, remove, leaves).
			lists([]string{"pg-0", "pg-1"}).givesUp().removed().spec("etcd", 3).after(time.Minute).lists([]string{"pg-0", "pg-1"}, "pg-2")
	}
	return []cases{{
		id: "I23",
		bad: []named{
			{"nobody says so", three("none").called(cloud.Delete, "pg-2")},
			{"for an update", scaledIn().phases("a", "pg-2", operation.Acting).called(cloud.Delete, "pg-2")},
			{"a Slot that is wanted", three("none").givesUp("pg-2").op("a", "pg-2", operation.Acting, remove).called(cloud.Delete, "pg-2")},
			{"one that is wanted, and told to leave its set, which still lists it", three("etcd").lists([]string{"pg-0", "pg-1", "pg-2"}).givesUp("pg-2").
				op("a", "pg-2", operation.Acting, remove, leaves).called(cloud.Delete, "pg-2")},
			{"the same, of a set that nobody told of", three("etcd").givesUp("pg-2").op("a", "pg-2", operation.Acting, remove, leaves).called(cloud.Delete, "pg-2")},
			{"nobody gave the disk up", three("none").spec("none", 2).after(time.Minute).op("a", "pg-2", operation.Acting, remove).called(cloud.Delete, "pg-2")},
			{"the spec preserves it", scaledIn(kept).op("a", "pg-2", operation.Acting, remove).called(cloud.Delete, "pg-2")},
			{"another CVM than the one that is named", scaledIn().op("a", "pg-2", operation.Acting, remove).called(cloud.Delete, "pg-2", gone("pg-1"))},
			{"a replacement that nobody asked for", three("none").op("a", "pg-2", operation.Acting, replace, unasked).called(cloud.Delete, "pg-2")},
			{"by healing that is to ask", three("none").spec("none", 3, healing(group.ReplaceAsk)).op("a", "pg-2", operation.Acting, heals).called(cloud.Delete, "pg-2")},
			{"by healing, of a disk that the spec preserves", three("none").spec("none", 3, healing(group.ReplaceAuto), kept).after(time.Minute).op("a", "pg-2", operation.Acting, heals).called(cloud.Delete, "pg-2")},
			{"the disk of another one was given up", three("none").givesUp("pg-1").spec("none", 2).after(time.Minute).op("a", "pg-2", operation.Acting, remove).called(cloud.Delete, "pg-2")},
			{"a restart was asked for", three("none").asks("q1", store.RequestRestart, "pg-2").op("a", "pg-2", operation.Acting, replace).called(cloud.Delete, "pg-2")},
			{"another one was to be replaced", three("none").asks("q1", store.RequestReplace, "pg-1").op("a", "pg-2", operation.Acting, replace).called(cloud.Delete, "pg-2")},
			{"nobody asked by that name", three("none").op("a", "pg-2", operation.Acting, replace).called(cloud.Delete, "pg-2")},
			{"it left its set, and nobody had given its disk up", voters().spec("etcd", 2).op("a", "pg-2", operation.Drained, remove, leaves).
				lists([]string{"pg-0", "pg-1"}).after(time.Minute).op("a", "pg-2", operation.Acting, deletes).called(cloud.Delete, "pg-2")},
			{"an extra one that the group grew over", surged().spec("none", 4).after(time.Minute).spec("none", 3).after(time.Minute).
				op("a", "pg-3", operation.Acting, remove).called(cloud.Delete, "pg-3")},
			{"the group goes, and its CVMs are to stay", three("none").deletes(true).op("a", "pg-2", operation.Acting, remove).called(cloud.Delete, "pg-2")},
			{"the permission was taken back", scaledIn().givesUp().removed().after(time.Minute).op("a", "pg-2", operation.Acting, remove).called(cloud.Delete, "pg-2")},
			{"a Slot that is wanted again, whose member joined its set again long ago", rejoined().after(EvidenceAge+time.Second).op("a", "pg-2", operation.Acting, deletes).called(cloud.Delete, "pg-2")},
		},
		good: []named{
			{"a Slot that is wanted again, whose member joined its set again a moment ago", rejoined().op("a", "pg-2", operation.Acting, deletes).called(cloud.Delete, "pg-2")},
			{"scaled in, and given up", scaledIn().op("a", "pg-2", operation.Acting, remove).called(cloud.Delete, "pg-2")},
			{"the group goes", three("none").deletes(false).op("a", "pg-2", operation.Acting, remove).called(cloud.Delete, "pg-2")},
			{"a Slot that is wanted again, whose member left its set", voters().givesUp("pg-2").spec("etcd", 2).op("a", "pg-2", operation.Drained, remove, leaves).
				lists([]string{"pg-0", "pg-1"}).givesUp().removed().spec("etcd", 3).after(time.Minute).op("a", "pg-2", operation.Acting, deletes).called(cloud.Delete, "pg-2")},
			{"an extra one at the end of its rollout", surged().op("a", "pg-3", operation.Acting, remove).called(cloud.Delete, "pg-3")},
			{"an extra one of a group whose disks are preserved", surged().spec("none", 3, kept).after(time.Minute).op("a", "pg-3", operation.Acting, remove).called(cloud.Delete, "pg-3")},
			{"a replacement on request", three("none").asks("q1", store.RequestReplace, "pg-2").op("a", "pg-2", operation.Acting, replace).called(cloud.Delete, "pg-2")},
			{"by healing, as the spec says", three("none").spec("none", 3, healing(group.ReplaceAuto)).op("a", "pg-2", operation.Acting, heals).called(cloud.Delete, "pg-2")},
			{"wanted again a moment ago", scaledIn().op("a", "pg-2", operation.Acting, remove).spec("none", 3).called(cloud.Delete, "pg-2")},
			{"a restart deletes nothing", three("none").op("a", "pg-2", operation.Acting, kind(operation.Restart, operation.PartRestart)).called(cloud.Restart, "pg-2")},
		},
	}}
}
