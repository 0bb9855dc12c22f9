package check

import (
	"strings"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

type opRecord = operation.Operation

func fencingCases() []cases { return []cases{writerCases(), fencedCases()} }

func writerCases() cases {
	unfenced := func(r *run) *run { return r.then(func(e *trace.Event) { e.Term, e.By = 0, "coordinator-0" }) }
	return cases{
		id: "I15",
		bad: []named{
			{"a leader of the past writes", start().lead("coordinator-1", 2).binds("pg-0").lead("coordinator-0", 1).binds("pg-0")},
			{"two write with one Term", start().binds("pg-0").lead("coordinator-1", 1).binds("pg-0")},
			{"an Operation without a Lease", unfenced(start().phases("a", "pg-0", "DRAINING"))},
			{"a policy without a Lease", unfenced(start().allowed("pg-0", "new"))},
			{"a Slot record without a Lease", unfenced(start().binds("pg-0"))},
			{"a group's status without a Lease", unfenced(start().commit(trace.Event{Key: "groups/pg/status"}))},
			{"a rollout without a Lease", unfenced(start().rollout("pg-1-11d1c0f8", operation.Running, nil))},
			{"a spec is accepted without a Lease", unfenced(start().spec("none", 3))},
			{"a Revision is recorded without a Lease", unfenced(start().commit(trace.Event{Key: "revisions/" + strings.Repeat("a", 32)}))},
			{"a rollout is removed without a Lease", unfenced(start().rollout("pg-1-11d1c0f8", operation.Running, nil).rollout("pg-1-11d1c0f8", operation.Running, nil).removed())},
			{"an Operation says a Term to come", start().op("a", "pg-0", "DRAINING", func(op *opRecord) { op.Term = 9 })},
			{"a deletion by a leader of the past", start().lead("coordinator-1", 2).binds("pg-0").lead("coordinator-0", 1).binds("pg-0").removed()},
		},
		good: []named{
			{"one after the other", start().binds("pg-0").lead("coordinator-1", 2).binds("pg-0").lead("coordinator-0", 3).binds("pg-0")},
			{"admissions are by anybody", start().lead("coordinator-1", 2).binds("pg-0").admitted("pg-0", "b1", "new", 1)},
			{"the Lease itself, and what is nobody's but theirs", unfenced(start().commit(trace.Event{Key: store.LeaseKey})).commit(trace.Event{Key: store.TermKey}).then(func(e *trace.Event) { e.By, e.Term = "", 0 })},
			{"an operator writes what is theirs", start().lead("coordinator-1", 2).binds("pg-0").operator("groups/pg/spec")},
		},
	}
}

func fencedCases() cases {
	const update = cloud.Update
	return cases{
		id: "I16",
		bad: []named{
			{"a second call before the answer", start().called(update, "pg-0").called(update, "pg-0")},
			{"another coordinator calls", start().called(update, "pg-0").lead("coordinator-1", 2).called(cloud.Restart, "pg-0")},
			{"the caller crashed a moment ago", start().called(update, "pg-0").crashed("coordinator-0").lead("coordinator-1", 2).called(update, "pg-0")},
			{"the caller crashed after its call took effect, and nobody looked", start().called(update, "pg-0").effected(1).crashed("coordinator-0").lead("coordinator-1", 2).called(update, "pg-0")},
			{"its successor saw nothing yet", start().called(update, "pg-0").effected(1).crashed("coordinator-0").lead("coordinator-1", 2).phases("a", "pg-0", operation.Acting).called(update, "pg-0")},
			{"its successor goes on without an effect", start().called(update, "pg-0").crashed("coordinator-0").lead("coordinator-1", 2).phases("a", "pg-0", operation.Booting).called(update, "pg-0")},
			{"it took effect and was not answered", start().called(update, "pg-0").effected(1).called(update, "pg-0")},
			{"a clock was set long before an unknown call", start().add(trace.Event{Kind: trace.Faulted, By: "fault", Text: "skew coordinator-0 for 1m0s"}).after(noticesWithin).
				called(update, "pg-0").answered(1, trace.Unknown).after(2*time.Minute).called(update, "pg-0")},
			{"its CVM was stopped, which looks like an effect", start().phases("a", "pg-0", operation.Acting).called(update, "pg-0").answered(1, trace.Unknown).
				add(trace.Event{Kind: trace.Faulted, By: "fault", Text: "halt pg-0 for 1s"}).phases("a", "pg-0", operation.Booting).called(update, "pg-0")},
			{"an unknown call is repeated at once", start().called(update, "pg-0").answered(1, trace.Unknown).called(update, "pg-0")},
			{"the next Operation calls while an unknown call may still take effect", start().phases("a", "pg-0", operation.Acting).called(update, "pg-0").answered(1, trace.Unknown).
				phases("a", "pg-0", operation.Aborted).phases("b", "pg-0", operation.Acting).called(update, "pg-0")},
			{"an unknown call was declined, and no record says so", start().phases("a", "pg-0", operation.Acting).called(update, "pg-0").answered(1, trace.Unknown).
				add(trace.Event{Kind: trace.Declined, Group: "pg", Slot: "pg-0", Call: trace.Call{ID: 1}}).called(update, "pg-0")},
			{"an unknown call took effect, and nobody looked", start().phases("a", "pg-0", operation.Acting).called(update, "pg-0").effected(1).answered(1, trace.Unknown).called(update, "pg-0")},
			{"the caller crashed, and nobody waits for what may come of its call", start().called(update, "pg-0").crashed("coordinator-0").after(time.Minute).lead("coordinator-1", 2).called(update, "pg-0")},
			{"another CVM was lost", start().called(update, "pg-0").answered(1, trace.Unknown).add(trace.Event{Kind: trace.Lost, Group: "pg", Slot: "pg-1"}).called(update, "pg-0")},
			{"a person told how another one ended", start().phases("a", "pg-0", operation.Acting).called(update, "pg-0").answered(1, trace.Unknown).phases("b", "pg-1", operation.Acting).
				resolves("q", "b").called(update, "pg-0")},
			{"another one crashed", start().called(update, "pg-0").crashed("coordinator-1").after(time.Hour).called(update, "pg-0")},
		},
		good: []named{
			{"after the answer", start().called(update, "pg-0").answered(1, trace.OK).called(update, "pg-0")},
			{"after an unknown outcome, when it can take effect no more", start().called(update, "pg-0").answered(1, trace.Unknown).after(3*time.Minute).called(update, "pg-0")},
			{"after an unknown call that its host declined, once a record says so", start().phases("a", "pg-0", operation.Acting).called(update, "pg-0").answered(1, trace.Unknown).
				add(trace.Event{Kind: trace.Declined, Group: "pg", Slot: "pg-0", Call: trace.Call{ID: 1}}).phases("a", "pg-0", operation.Booting).called(update, "pg-0")},
			{"after an unknown call whose effect was seen", start().phases("a", "pg-0", operation.Acting).called(update, "pg-0").answered(1, trace.Unknown).effected(1).
				phases("a", "pg-0", operation.Booting).called(update, "pg-0")},
			{"a clock was set right before an unknown call", start().add(trace.Event{Kind: trace.Faulted, By: "fault", Text: "skew coordinator-0 for 1m0s"}).
				called(update, "pg-0").answered(1, trace.Unknown).after(2*time.Minute).called(update, "pg-0")},
			{"its CVM was lost", start().called(update, "pg-0").answered(1, trace.Unknown).add(trace.Event{Kind: trace.Lost, Group: "pg", Slot: "pg-0"}).called(cloud.Create, "pg-0")},
			{"the caller crashed and its call is over", start().called(update, "pg-0").crashed("coordinator-0").after(3*time.Minute).lead("coordinator-1", 2).called(update, "pg-0")},
			{"the caller crashed after its call took effect, which its successor saw", start().called(update, "pg-0").effected(1).crashed("coordinator-0").lead("coordinator-1", 2).
				phases("a", "pg-0", operation.Booting).called(update, "pg-0")},
			{"a person told how it ended", start().phases("a", "pg-0", operation.Acting).called(update, "pg-0").answered(1, trace.Unknown).resolves("q", "a").called(update, "pg-0")},
			{"two Slots", start().called(update, "pg-0").called(update, "pg-1")},
		},
	}
}

func callCases() []cases { return []cases{onceCases(), aheadCases()} }

func onceCases() cases {
	const acting = operation.Acting
	first := func() *run { return start().phases("a", "pg-0", acting).called(cloud.Update, "pg-0").effected(1) }
	started := func(halted string) *run {
		return start().phases("a", "pg-0", acting).called(cloud.Restart, "pg-0").effected(1).answered(1, trace.OK).
			add(trace.Event{Kind: trace.Faulted, By: "fault", Text: "halt " + halted + " for 1s"}).called(cloud.Restart, "pg-0").effected(2)
	}
	made := func() *run {
		return start().phases("a", "pg-0", acting).called(cloud.Create, "pg-0").effected(1).answered(1, trace.Unknown)
	}
	byFault := func(r *run) *run { return r.then(func(e *trace.Event) { e.By = "fault" }) }
	return cases{
		id: "I17",
		bad: []named{
			{"a call twice", first().effected(1)},
			{"made once more, as another one was lost", made().add(trace.Event{Kind: trace.Lost, Group: "pg", Slot: "pg-1"}).called(cloud.Create, "pg-0").effected(2)},
			{"started once more, as another one halted", started("pg-1")},
			{"a call twice, after its answer", first().answered(1, trace.Unknown).after(time.Hour).effected(1)},
			{"repeated although it took effect", first().answered(1, trace.Unknown).phases("a", "pg-0", acting).called(cloud.Update, "pg-0").effected(2)},
			{"repeated, and the first was late", start().phases("a", "pg-0", acting).called(cloud.Update, "pg-0").answered(1, trace.Unknown).
				phases("a", "pg-0", acting).called(cloud.Update, "pg-0").effected(2).effected(1)},
			{"repeated by a successor", first().crashed("coordinator-0").after(time.Hour).lead("coordinator-1", 2).phases("a", "pg-0", acting).called(cloud.Update, "pg-0").effected(2)},
			{"a call that no Operation announced, twice", start().called(cloud.Delete, "pg-0").effected(1).effected(1)},
		},
		good: []named{
			{"once", first().answered(1, trace.OK)},
			{"repeated, as it had none", start().phases("a", "pg-0", acting).called(cloud.Update, "pg-0").answered(1, trace.Unknown).phases("a", "pg-0", acting).called(cloud.Update, "pg-0").effected(2)},
			{"made once more, as it was lost before anybody saw it", made().add(trace.Event{Kind: trace.Lost, Group: "pg", Slot: "pg-0"}).called(cloud.Create, "pg-0").effected(2)},
			{"started once more, as it halted", started("pg-0")},
			{"two parts", first().phases("a", "pg-0", acting).called(cloud.Image, "pg-0").effected(2)},
			{"the same part, after a newer spec", first().op("a", "pg-0", acting, func(op *opRecord) { op.Order++ }).called(cloud.Update, "pg-0").effected(2)},
			{"two Operations", first().phases("a", "pg-0", operation.Done).phases("b", "pg-0", acting).called(cloud.Update, "pg-0").effected(2)},
			{"the platform's own doing", byFault(first().effected(1))},
			{"calls that no Operation announced", start().called(cloud.Delete, "pg-0").effected(1).called(cloud.Delete, "pg-0").effected(2)},
		},
	}
}

func aheadCases() cases {
	const acting = operation.Acting
	other := func(e *trace.Event) { e.Call.VMUUID = "vm-of-another" }
	unanswered := func(op *opRecord) { op.Call.Outcome = "" }
	causeless := func(op *opRecord) { op.Failure.Cause = "" }
	return cases{
		id: "I18",
		bad: []named{
			{"before the record", start().phases("a", "pg-0", operation.Drained).called(cloud.Update, "pg-0")},
			{"after the end", start().phases("a", "pg-0", acting, operation.Booting, operation.Done).called(cloud.Update, "pg-0")},
			{"without the time of the call", start().op("a", "pg-0", acting, func(op *opRecord) { op.Call.IssuedAt = time.Time{} }).called(cloud.Update, "pg-0")},
			{"a second call by one record", start().phases("a", "pg-0", acting).called(cloud.Update, "pg-0").answered(1, trace.Unknown).called(cloud.Update, "pg-0")},
			{"after its outcome is recorded", start().phases("a", "pg-0", acting).op("a", "pg-0", acting, func(op *opRecord) { op.Call.Outcome = operation.OutcomeBusy }).called(cloud.Update, "pg-0")},
			{"another call than the record says", start().phases("a", "pg-0", acting).called(cloud.Restart, "pg-0")},
			{"another CVM than the record says", start().phases("a", "pg-0", acting).called(cloud.Update, "pg-0", other)},
			{"by another coordinator", start().phases("a", "pg-0", acting).lead("coordinator-1", 2).called(cloud.Update, "pg-0")},
			{"the record is removed before the end", start().phases("a", "pg-0", acting, operation.Booting).removed()},
			{"done without an outcome", start().phases("a", "pg-0", acting).op("a", "pg-0", operation.Done, unanswered)},
			{"called off without an outcome", start().phases("a", "pg-0", acting).called(cloud.Update, "pg-0").answered(1, trace.Unknown).op("a", "pg-0", operation.Aborted, unanswered)},
			{"for a refresh", start().op("a", "pg-0", acting, refresh).called(cloud.Update, "pg-0")},
			{"failed without a cause", start().phases("a", "pg-0", acting).op("a", "pg-0", operation.Failed, causeless)},
		},
		good: []named{
			{"announced", start().phases("a", "pg-0", acting).called(cloud.Update, "pg-0").answered(1, trace.OK).phases("a", "pg-0", operation.Booting, operation.Done)},
			{"announced once more", start().phases("a", "pg-0", acting).called(cloud.Update, "pg-0").answered(1, trace.Unknown).phases("a", "pg-0", acting).called(cloud.Update, "pg-0")},
			{"a successor announces", start().phases("a", "pg-0", acting).lead("coordinator-1", 2).phases("a", "pg-0", acting).called(cloud.Update, "pg-0")},
			{"a creation names what it makes", start().op("a", "pg-0", acting, kind(operation.Create, operation.PartCreate)).called(cloud.Create, "pg-0", other)},
			{"called off when its call can take effect no more", start().phases("a", "pg-0", acting).called(cloud.Update, "pg-0").answered(1, trace.Unknown).after(3*time.Minute).
				op("a", "pg-0", operation.Aborted, unanswered)},
			{"no call, no outcome", start().phases("a", "pg-0", operation.Draining, operation.Aborted)},
			{"the record is removed after the end", start().phases("a", "pg-0", acting, operation.Booting, operation.Done).phases("a", "pg-0", operation.Done).removed()},
		},
	}
}
