package rollout

import (
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestASlotThatLostItsCVMToAReplacementIsUnavailable: its creation waits, and no other Slot goes meanwhile (R20). A
// Slot that never had a CVM is only provisioning (R29).
func TestASlotThatLostItsCVMToAReplacementIsUnavailable(t *testing.T) {
	f := newFixture(3, "none").missing(1)
	f.rec.Slots[1].Incarnation = 1
	f.rec.Slots[1].Lineage = []group.Past{{InstanceID: "i-old", VMUUID: "vm-old", EndedAt: epoch}}
	if m := newWorld(f.spec, f.rec, f.obs, f.now, f.t).find("db-1"); !m.unavailable() {
		t.Error("a member that is being replaced counts as there")
	}
	f.missing(1)
	if m := newWorld(f.spec, f.rec, f.obs, f.now, f.t).find("db-1"); m.unavailable() {
		t.Error("one that was never made counts as gone")
	}
}

// TestAReplacementIsNotKeptByARestartThatNothingCanAnswer: the CVM is lost, so the earlier requested restart would
// wait without end. The replacement goes before it.
func TestAReplacementIsNotKeptByARestartThatNothingCanAnswer(t *testing.T) {
	f := newFixture(3, "none").rolling()
	f.obs.Slots[1].Instance = nil
	f.asks("db-1", "a")
	f.obs.Requests = append(f.obs.Requests, Request{ID: "b", Kind: RequestReplace, Slot: "db-1"})
	wantExecutes(t, f.plan(), "REPLACE db-1")
}

// TestASlotThatIsWantedAgainAfterItsRemovalIsMade: an operator gave its disk up, and an Operation deleted it. The CVM
// does not count as lost.
func TestASlotThatIsWantedAgainAfterItsRemovalIsMade(t *testing.T) {
	f := newFixture(3, "none").rolling()
	f.obs.Slots[2].Instance, f.obs.Slots[2].Report, f.obs.Slots[2].Admission = nil, nil, nil
	f.op(2, operation.Done, func(op *operation.Operation) { op.Kind, op.To, op.Actor = operation.Delete, "", operation.ActorScaling })
	wantExecutes(t, f.plan(), "CREATE db-2")
}

// TestACompleteRolloutThatIsOpenedAgainForgetsItsOldFailures: the earlier failures recovered before the rollout
// completed, and prove nothing now (I6, R90).
func TestACompleteRolloutThatIsOpenedAgainForgetsItsOldFailures(t *testing.T) {
	f := newFixture(3, "none")
	f.rec.Rollout.Steps = 1
	f.op(1, operation.Failed, func(op *operation.Operation) { op.Failure.Cause, op.Reason = operation.CauseDeadline, "too late" })
	f.sick(1)
	f.spec.Replicas = 4
	p := f.plan()
	if p.Rollout.State != operation.Running {
		t.Errorf("%s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

// TestCompleteMeansThatThePlatformShowsItToo: a Boot proves its Revision, not the machine under it. Of two Revisions
// that measure the same, a member that rebooted automatically may have proved a Revision that it never received.
func TestCompleteMeansThatThePlatformShowsItToo(t *testing.T) {
	f := newFixture(3, "none")
	for i := range f.obs.Slots {
		f.obs.Slots[i].Instance.Shape = operation.Shape{InstanceType: "tdx.small", OSImage: "dstack-0.5.7", DiskGB: 20}
	}
	if p := f.plan(); p.Rollout.State != operation.Complete {
		t.Fatalf("%s: %s", p.Rollout.State, p.Rollout.Reason)
	}
	f.obs.Slots[1].Instance.Shape.InstanceType = "tdx.large"
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-1")
	if p.Rollout.State == operation.Complete {
		t.Error("complete, and the platform shows another instance type")
	}
	// A step's reason holds until its call is accepted. Otherwise the step would be called off, and recorded again.
	f.rolling()
	for _, phase := range []operation.Phase{operation.Draining, operation.Drained, operation.Acting} {
		f.rec.Operations = nil
		f.op(1, phase, func(op *operation.Operation) { op.Call.IssuedAt = f.now })
		if why := f.facts(f.rec.Operations[0]).Unwanted; why != "" {
			t.Errorf("%s: not wanted: %s", phase, why)
		}
	}
}

// TestARemovalWaitsForOthersAtItsSecondLookToo: another member broke during the drain.
func TestARemovalWaitsForOthersAtItsSecondLookToo(t *testing.T) {
	f := newFixture(3, "none").rolling()
	f.spec.Replicas, f.obs.DeleteDisks = 2, []string{"db-2"}
	f.op(2, operation.Drained, func(op *operation.Operation) { op.Kind, op.To, op.Actor = operation.Delete, "", operation.ActorScaling })
	if facts := f.facts(f.rec.Operations[0]); !facts.Safe {
		t.Fatalf("held: %s", facts.SafeReason)
	}
	f.sick(0)
	if facts := f.facts(f.rec.Operations[0]); facts.Safe {
		t.Error("a member goes while another one is down")
	}
}
