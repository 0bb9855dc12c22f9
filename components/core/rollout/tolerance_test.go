package rollout

import (
	"strings"
	"testing"

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
