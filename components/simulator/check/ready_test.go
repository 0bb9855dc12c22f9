package check

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

func minReady(sec int) func(*group.Spec) {
	return func(s *group.Spec) { s.UpdatePolicy.MinReadySeconds = &sec }
}

func specCases() []cases {
	return []cases{readyCases(), opportunisticCases(), windowCases(), launchedCases()}
}

func readyCases() cases {
	const settling, draining, done = operation.Settling, operation.Draining, operation.Done
	step := func() *run {
		return three("none", minReady(40)).phases("a", "pg-0", draining, operation.Acting).stops("pg-0").after(20*time.Second).servesAs("pg-0", "boot-2").phases("a", "pg-0", settling)
	}
	back := func() *run {
		return three("none", minReady(40)).stops("pg-0").after(20*time.Second).servesAs("pg-0", "boot-2")
	}
	fault := func(r *run, text string) *run {
		return r.add(trace.Event{Kind: trace.Faulted, By: "fault", Text: text})
	}
	return cases{
		id: "min-ready",
		bad: []named{
			{"a step is done early", step().after(30*time.Second).phases("a", "pg-0", done)},
			{"all goes right, and no clock was set", step().add(trace.Event{Kind: trace.Healed, By: "fault"}).after(30*time.Second).phases("a", "pg-0", done)},
			{"its Boot fell ill for long meanwhile", step().after(30*time.Second).
				add(trace.Event{Kind: trace.Stopped, Group: "pg", Slot: "pg-0", Boot: "boot-2"}).after(2*time.Minute).servesAs("pg-0", "boot-2").phases("a", "pg-0", done)},
			{"another one goes beside one that is just back", back().after(20*time.Second).phases("b", "pg-1", draining)},
			{"it comes to its call then", back().op("b", "pg-1", operation.Drained, skipDrain).after(20*time.Second).op("b", "pg-1", operation.Acting, skipDrain)},
		},
		good: []named{
			{"after its time", step().after(40*time.Second).phases("a", "pg-0", done)},
			{"a clock was set", fault(step(), "skew coordinator-0 for 10s").after(30*time.Second).phases("a", "pg-0", done)},
			{"a clock was set right", fault(three("none", minReady(40)), "skew coordinator-0 for 10s").after(5*time.Minute).phases("a", "pg-0", draining, operation.Acting).stops("pg-0").
				after(20*time.Second).servesAs("pg-0", "boot-2").phases("a", "pg-0", settling).add(trace.Event{Kind: trace.Healed, By: "fault"}).after(30*time.Second).phases("a", "pg-0", done)},
			{"another one goes later", back().after(40*time.Second).phases("b", "pg-1", draining)},
			{"the one that is just back itself", back().after(20*time.Second).phases("b", "pg-0", draining)},
			{"the spec asked for less a moment ago", three("none", minReady(2)).stops("pg-0").after(20*time.Second).servesAs("pg-0", "boot-2").after(20*time.Second).spec("none", 3, minReady(40)).phases("b", "pg-1", draining)},
			{"two may be away", three("none", minReady(40), maxUnavailable(2)).stops("pg-0").after(20*time.Second).servesAs("pg-0", "boot-2").after(20*time.Second).phases("b", "pg-1", draining)},
		},
	}
}

func opportunisticCases() cases {
	idle := func(s *group.Spec) { s.UpdatePolicy.Type = group.Opportunistic }
	rolls := func(op *operation.Operation) { op.Actor = operation.ActorRollout }
	group := func() *run { return three("none", idle).after(time.Minute) }
	return cases{
		id: "opportunistic",
		bad: []named{
			{"an update", group().op("a", "pg-0", operation.Draining, rolls)},
			{"one without a drain", group().op("a", "pg-0", operation.Acting, rolls, skipDrain)},
			{"one that waited for its call", group().op("a", "pg-0", operation.Drained, rolls, skipDrain).after(time.Minute).op("a", "pg-0", operation.Acting, rolls, skipDrain)},
		},
		good: []named{
			{"it was asked for", group().op("a", "pg-0", operation.Draining, rolls, func(op *operation.Operation) { op.Request.ID = "q" })},
			{"the member is down", group().stops("pg-0").after(time.Minute).op("a", "pg-0", operation.Acting, rolls, skipDrain)},
			{"healing", group().op("a", "pg-0", operation.Draining, func(op *operation.Operation) { op.Kind, op.Actor = operation.Restart, operation.ActorHealing })},
			{"it was PROACTIVE a moment ago", three("none").after(time.Minute).spec("none", 3, idle).op("a", "pg-0", operation.Draining, rolls)},
		},
	}
}

func launchedCases() cases {
	hooked := func(s *group.Spec) {
		s.LifecycleHooks = []group.LifecycleHook{{Name: "launch", Transition: group.PostLaunch, Exec: &group.ExecAction{Service: "pg", Command: "launch"}}}
	}
	const joining, settling, done = operation.Joining, operation.Settling, operation.Done
	from := func(r *run) *run {
		return r.phases("a", "pg-0", operation.Draining, operation.Acting).admitted("pg-0", "boot-2", "new", 2).phases("a", "pg-0", joining)
	}
	step := func() *run { return from(three("none", hooked)) }
	ran := func(r *run, boot string) *run {
		return r.add(trace.Event{Kind: trace.Launched, Group: "pg", Slot: "pg-0", Boot: boot})
	}
	return cases{
		id: "launched",
		bad: []named{
			{"no hook ran", step().phases("a", "pg-0", settling, done)},
			{"one of the Boot before the step", from(ran(three("none", hooked), "boot-1")).phases("a", "pg-0", settling, done)},
			{"it does not settle first", step().phases("a", "pg-0", done)},
		},
		good: []named{
			{"it ran", ran(step(), "boot-2").phases("a", "pg-0", settling, done)},
			{"it ran in a Boot before, for the same step", ran(step(), "boot-1").phases("a", "pg-0", settling, done)},
			{"there are no hooks", three("none").phases("a", "pg-0", operation.Draining, operation.Acting).admitted("pg-0", "boot-2", "new", 2).phases("a", "pg-0", joining, done)},
			{"a step fails", step().phases("a", "pg-0", operation.Failed)},
		},
	}
}
