package rollout

import (
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// atMost gives the group another max_unavailable.
func atMost(n int, f *fixture) *fixture {
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(n)
	return f
}

// failedStep is a step of this rollout that failed.
func failedStep(op *operation.Operation) {
	op.Times.Ended, op.Reason, op.Failure.Cause = epoch, "does not answer", operation.CauseDeadline
}

func TestR100_ToleratedFailuresDoNotStopTheOthers(t *testing.T) {
	f := atMost(3, newFixture(5, "none")).want("B").rolling()
	f.at(4, "B").sick(4).op(4, operation.Failed, failedStep)
	for tolerated, state := range map[int]operation.RolloutState{0: operation.FailedState, 1: operation.Running, 2: operation.Running} {
		f.spec.UpdatePolicy.MaxFailed = tolerated
		p := f.plan()
		if p.Rollout.State != state {
			t.Errorf("max_failed %d: state %s: %s", tolerated, p.Rollout.State, p.Rollout.Reason)
		}
		if a := actionOf(t, p, "db-3"); a.Execute != (state == operation.Running) {
			t.Errorf("max_failed %d: db-3 is held by %v", tolerated, a.Holds)
		}
	}
	f.spec.UpdatePolicy.MaxFailed = 1
	f.at(3, "B").sick(3).op(3, operation.Failed, failedStep)
	if p := f.plan(); p.Rollout.State != operation.FailedState {
		t.Errorf("two of them: state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

func TestR100_TheLeaderWaitsForNoToleratedFailure(t *testing.T) {
	f := atMost(3, newFixture(4, "none")).want("B").follows()
	f.lead(0)
	f.rolling()
	f.at(1, "B").at(2, "B").op(3, operation.Failed, failedStep)
	wantHeld(t, f.plan(), "db-0", HoldLeaderLast)
	f.spec.UpdatePolicy.MaxFailed = 1
	if a := actionOf(t, f.plan(), "db-0"); !a.Execute {
		t.Errorf("db-0 is held by %v", a.Holds)
	}
}

func TestR100_VotersTolerateNoFailure(t *testing.T) {
	f := atMost(3, newFixture(5, "none")).want("B").rolling()
	f.at(4, "B").sick(4).op(4, operation.Failed, failedStep)
	f.spec.UpdatePolicy.MaxFailed = 1
	for i := range f.obs.Slots {
		f.obs.Slots[i].Report.QuorumMember = true // a workload that no driver knows has voters all the same
	}
	if p := f.plan(); p.Rollout.State != operation.FailedState {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

// A call with an unknown effect stops all other calls, so that a rollout which tolerated it would only wait.
func TestR100_AnUndecidedCallIsNotTolerated(t *testing.T) {
	f := atMost(3, newFixture(5, "none")).want("B").rolling().op(4, operation.Acting, func(op *operation.Operation) {
		op.Call.Outcome, op.Call.IssuedAt, op.Call.Number = operation.OutcomeUnknown, epoch, 1
	})
	f.spec.UpdatePolicy.MaxFailed = 1
	if p := f.plan(); p.Rollout.State != operation.FailedState || !strings.Contains(p.Rollout.Reason, "platform_result_unknown") {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

func TestR100_AnEndNamesTheFailureThatItTolerates(t *testing.T) {
	f := atMost(2, newFixture(3, "none")).want("B").rolling()
	f.spec.UpdatePolicy.MaxFailed, f.spec.UpdatePolicy.Partition = 1, 1
	f.at(1, "B").at(2, "B").sick(2).op(2, operation.Failed, failedStep)
	const reason = "every slot but db-2 is at the target: max_failed tolerates that its step failed: does not answer"
	if p := f.plan(); p.Rollout.State != operation.PartitionReached || p.Rollout.Reason != reason {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
	f.obs.Slots[2].Report.Health = Healthy
	if p := f.plan(); p.Rollout.State != operation.PartitionReached || !strings.Contains(p.Rollout.Reason, "from ordinal 1 on") {
		t.Errorf("it serves again: state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

// A stage whose Slots all failed proves nothing about the Revision, and opens no further stage.
func TestR100_AStageProvesTheRevision(t *testing.T) {
	for slots, state := range map[int]operation.RolloutState{1: operation.FailedState, 2: operation.Running} {
		f := atMost(3, newFixture(5, "none")).want("B")
		f.spec.UpdatePolicy.MaxFailed, f.spec.UpdatePolicy.Stages = 1, []group.Stage{{Slots: slots}}
		f.spec.Normalize()
		f.rolling().at(4, "B").sick(4).op(4, operation.Failed, failedStep)
		p := f.plan()
		if p.Rollout.State != state || p.Rollout.StagesPassed != 0 {
			t.Errorf("a stage of %d: state %s, %d stages are over: %s", slots, p.Rollout.State, p.Rollout.StagesPassed, p.Rollout.Reason)
		}
		if a := actionOf(t, p, "db-2"); a.Execute {
			t.Errorf("a stage of %d: db-2 is updated as well", slots)
		}
		if f.at(3, "B"); slots == 2 {
			if p := f.plan(); p.Rollout.StagesPassed != 1 || !actionOf(t, p, "db-2").Execute {
				t.Errorf("db-3 proved the revision: %d stages are over, db-2 is held by %v", p.Rollout.StagesPassed, actionOf(t, p, "db-2").Holds)
			}
		}
	}
}

// A Revision that no Slot proved is no Revision to leave a group at.
func TestR100_AGroupProvesTheRevision(t *testing.T) {
	f := newFixture(1, "none").want("B").rolling().at(0, "B").sick(0).op(0, operation.Failed, failedStep)
	f.spec.UpdatePolicy.MaxFailed = 1
	if p := f.plan(); p.Rollout.State != operation.FailedState {
		t.Errorf("its only slot failed: state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

// An extra member makes room for the others and proves the Revision first. The others would wait for it until the
// progress deadline.
func TestR100_TheFailureOfAnExtraMemberIsNotTolerated(t *testing.T) {
	f := surged(2, "none")
	f.spec.UpdatePolicy.MaxFailed, f.spec.UpdatePolicy.MaxSurgeFixed = 1, intp(2)
	f.at(2, "B").sick(2).op(2, operation.Failed, failedStep)
	if p := f.plan(); p.Rollout.State != operation.FailedState || p.Rollout.Verdict == nil || p.Rollout.Verdict.Slot != "db-2" {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

// A tolerated failure takes the room that an extra member makes, so that another one has to make room for the rest.
func TestR100_AnExtraMemberComesForEachToleratedFailure(t *testing.T) {
	f := surged(2, "none")
	f.spec.UpdatePolicy.MaxFailed, f.spec.UpdatePolicy.MaxSurgeFixed = 1, intp(2)
	f.at(2, "B").at(1, "B").sick(1).op(1, operation.Failed, failedStep)
	f.rec.Slots[1].WasAvailableAt = revisionOf(f.spec, "A")
	p := f.plan()
	if a := actionOf(t, p, "db-3"); a.Kind != operation.Create || !a.Extra || !a.Execute {
		t.Errorf("%+v", a)
	}
	if p.Rollout.State != operation.Running {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}
