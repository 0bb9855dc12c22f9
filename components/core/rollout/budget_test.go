package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func intp(n int) *int { return &n }

func TestR20_UIsEverythingThatIsNotAvailable(t *testing.T) {
	b := func(f *fixture) *fixture { return f.want("B").rolling() }
	for name, f := range map[string]*fixture{
		"broken before":   b(newFixture(4, "none")).at(3, "B").sick(3),
		"silent":          b(newFixture(4, "none")).at(3, "B").silent(3, epoch),
		"stopped":         b(newFixture(4, "none")).at(3, "B").stopped(3),
		"in a step":       b(newFixture(4, "none")).op(3, operation.Draining, nil),
		"not admitted":    b(newFixture(4, "none")).at(3, "B"),
		"min_ready runs":  b(newFixture(4, "none")).at(3, "B"),
		"CVM is gone":     b(newFixture(4, "none")).at(3, "B"),
		"two of the name": b(newFixture(4, "none")).at(3, "B"),
	} {
		switch name {
		case "not admitted":
			f.obs.Slots[3].Admission = nil
		case "min_ready runs":
			f.rec.Slots[3].AvailableSince = f.now.Add(-time.Second)
		case "CVM is gone":
			f.obs.Slots[3].Instance = nil
		case "two of the name":
			f.obs.Slots[3].Duplicates = []Instance{{VMUUID: "x"}}
		}
		p := f.plan()
		wantExecutes(t, p)
		if a := actionOf(t, p, "db-2"); !a.HeldBy(HoldMaxUnavailable) {
			t.Errorf("%s: db-2 is held by %v", name, holdNames(a))
		}
	}
}

func TestR21_TheBrokenOutdatedSlotGoesAndTheHealthyOneWaits(t *testing.T) {
	p := newFixture(4, "none").want("B").rolling().sick(2).plan()
	wantExecutes(t, p, "UPDATE db-2")
	wantHeld(t, p, "db-0", HoldMaxUnavailable)
}

func TestR21_ABrokenSlotAtTheTargetBlocksTheHealthyOnes(t *testing.T) {
	p := newFixture(4, "none").want("B").rolling().at(2, "B").sick(2).plan()
	wantExecutes(t, p)
	if hasAction(p, "db-2") {
		t.Errorf("db-2 is at the target and gets the same again\n%s", describe(p))
	}
}

// TestR21_AReportingMemberIsNotDownByAnOldListing: the platform's listing may be minutes old. A requested restart takes
// the member away all the same, and needs room in the budget.
func TestR21_AReportingMemberIsNotDownByAnOldListing(t *testing.T) {
	for name, c := range map[string]struct {
		says  func(i *Instance)
		heard time.Duration
		held  bool
	}{
		"it speaks":                    {func(i *Instance) { i.Status = "stopped" }, operation.LiveWithin - 1, true},
		"it speaks, and does not boot": {func(i *Instance) { i.Status, i.BootError = "stopped", "no disk" }, operation.LiveWithin - 1, true},
		"it is silent":                 {func(i *Instance) { i.Status = "stopped" }, operation.LiveWithin, false},
	} {
		f := newFixture(3, "none")
		f.sick(0)
		c.says(f.obs.Slots[1].Instance)
		f.obs.Slots[1].Report.ReceivedAt = f.now.Add(-c.heard)
		f.asks("db-1", "q")
		p := f.plan()
		if actionOf(t, p, "db-1").HeldBy(HoldMaxUnavailable) != c.held {
			t.Errorf("%s: %s", name, describe(p))
		}
	}
}

func TestR21_ASlotThatOnlyCountsMinReadyNeedsRoom(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Booting, nil)
	f.rec.Slots[1].AvailableSince = f.now.Add(-time.Second) // available again after a reboot of its own
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldMaxUnavailable)
	g := newFixture(3, "none").want("B").rolling()
	g.rec.Slots[1].AvailableSince = g.now.Add(-time.Second)
	wantExecutes(t, g.plan(), "UPDATE db-1") // it may begin alone
}

func TestR21_ALargerBudgetIsUsed(t *testing.T) {
	f := newFixture(5, "none").want("B")
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(2)
	wantExecutes(t, f.plan(), "UPDATE db-4", "UPDATE db-3")
	f.rolling().op(4, operation.Booting, nil)
	wantExecutes(t, f.plan(), "UPDATE db-3")
}

func TestR22_BelowThePartitionUsesBudgetButIsNotUpdated(t *testing.T) {
	f := newFixture(4, "none").want("B")
	f.spec.UpdatePolicy.Partition = 2
	p := f.sick(0).plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-3", HoldMaxUnavailable)
	if hasAction(p, "db-0") || hasAction(p, "db-1") {
		t.Errorf("a slot below the partition is moved\n%s", describe(p))
	}
}

func TestR23_AStepCountsFromItsIntent(t *testing.T) {
	p := newFixture(3, "none").want("B").rolling().op(2, operation.Draining, nil).plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldMaxUnavailable)
}

func TestR24_RestartsAndUpdatesShareTheBudget(t *testing.T) {
	f := newFixture(3, "none").want("B")
	f.asks("db-0", "q1")
	p := f.plan()
	wantExecutes(t, p, "RESTART db-0")
	wantHeld(t, p, "db-2", HoldMaxUnavailable)

	f = newFixture(3, "none")
	f.asks("db-0", "q1").asks("db-1", "q2")
	p = f.plan()
	wantExecutes(t, p, "RESTART db-1")
	wantHeld(t, p, "db-0", HoldMaxUnavailable)
}

func TestR25_AnUndecidedCallKeepsItsPlaceWithoutEnd(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	f.op(2, operation.Acting, func(op *operation.Operation) {
		op.Call.Number, op.Call.Outcome, op.Call.IssuedAt = 1, operation.OutcomeUnknown, epoch
	})
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldMaxUnavailable)
	wantHeld(t, p, "db-1", HoldCallUndecided)
}

func TestR26_ASilentVoterIsArithmeticNotAVeto(t *testing.T) {
	f := newFixture(5, "consul").want("B")
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(2)
	p := f.silent(1, f.now.Add(-time.Minute)).plan()
	wantExecutes(t, p, "UPDATE db-4")
}

func TestR26_AnIncompleteOrOldObservationBeginsNothing(t *testing.T) {
	f := newFixture(3, "none").want("B")
	f.blind("the platform")
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-2", HoldIncomplete)
	f = newFixture(3, "none").want("B")
	f.obs.At = f.now.Add(-31 * time.Second)
	p = f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-2", HoldIncomplete)
}

func TestR27_TheScanGoesOnBehindABlockedCandidate(t *testing.T) {
	f := newFixture(4, "none").want("B").rolling().sick(0)
	f.asks("db-3", "q") // class 1, before the broken Slot
	p := f.plan()
	wantHeld(t, p, "db-3", HoldMaxUnavailable)
	wantExecutes(t, p, "UPDATE db-0")
}

func TestR28_ABrokenSlotDoesNotBlockTheRolloutThatRepairsIt(t *testing.T) {
	for _, kind := range []string{"none", "consul", "patroni"} {
		p := newFixture(3, kind).want("B").sick(1).plan()
		wantExecutes(t, p, "UPDATE db-1")
		// In a group without a driver, a failing check is the only evidence of the fault: the hooks run all the
		// same.
		if a := actionOf(t, p, "db-1"); a.Way.SkipDrain != (kind != "none") || a.Class != ClassBroken {
			t.Errorf("%s: class %d, skip drain %t", kind, a.Class, a.Way.SkipDrain)
		}
	}
}

func TestR36_AnUnfinishedStepGoesFirst(t *testing.T) {
	f := newFixture(5, "consul").want("B").rolling()
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(2)
	p := f.op(4, operation.Joining, nil).plan()
	if p.Actions[0].Slot != "db-4" || p.Actions[0].Operation == "" {
		t.Errorf("first action %+v", p.Actions[0])
	}
	wantExecutes(t, p)
	wantHeld(t, p, "db-3", HoldVoterCap)
}

func TestR36_ABrokenOutdatedSlotIsQueuedBehindIt(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Joining, nil).sick(1)
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldMaxUnavailable) // its check fails, and it may serve
	g := newFixture(5, "consul").want("B").rolling().op(2, operation.Joining, nil).sick(1)
	p = g.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldVoterCap)
}

func TestR37_ACalledOffCandidateIsDeferredAndOthersGoOn(t *testing.T) {
	aborted := func(op *operation.Operation) { op.Failure.Cause, op.Reason = operation.CauseHook, "no" }
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Aborted, aborted)
	f.rec.Operations[0].Times.Ended = f.now.Add(-time.Second)
	p := f.plan()
	wantHeld(t, p, "db-2", HoldBackoff)
	wantExecutes(t, p, "UPDATE db-1")
	if a := actionOf(t, p, "db-2"); !a.Holds[0].Until.Equal(f.now.Add(4 * time.Second)) {
		t.Errorf("until %s", a.Holds[0].Until)
	}
	f.rec.Operations[0].Times.Ended = f.now.Add(-5 * time.Second)
	wantExecutes(t, f.plan(), "UPDATE db-2")
	f.op(2, operation.Aborted, aborted)
	f.rec.Operations[1].Times.Ended = f.now.Add(-9 * time.Second)
	wantHeld(t, f.plan(), "db-2", HoldBackoff) // the wait doubles
}

func TestR38_MeasuredRecoveryIsNotDisturbed(t *testing.T) {
	f := newFixture(3, "patroni").want("B").lagging(1, 1<<30)
	f.obs.Slots[1].Report.Busy = []string{"this replica is being created"}
	f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now.Add(-2*time.Hour)
	wantHeld(t, f.plan(), "db-1", HoldRecovering)
	note := func(boot string, bytes int64, ago time.Duration) {
		f.rec.Slots[1].Recovery = &group.Recovery{BootID: boot, LagBytes: bytes, At: f.now.Add(-ago)}
	}
	boot := f.obs.Slots[1].Report.BootID
	for name, c := range map[string]struct {
		boot  string
		bytes int64
		ago   time.Duration
		held  bool
		noted bool
	}{
		"its lag fell a moment ago":         {boot, 1<<30 + 5, 30 * time.Second, true, false},
		"its lag falls":                     {boot, 1<<30 + 5, time.Hour, true, true},
		"its lag does not fall yet":         {boot, 1 << 30, 9 * time.Minute, true, false},
		"its lag grows":                     {boot, 1 << 20, 9 * time.Minute, true, false},
		"its lag has not fallen for long":   {boot, 1 << 30, 10 * time.Minute, false, false},
		"its lag has grown for long":        {boot, 1 << 20, 10 * time.Minute, false, false},
		"another boot of it was behind":     {"before", 1 << 20, time.Hour, true, true},
		"it was noted by a clock too early": {boot, 1 << 30, -time.Hour, true, true},
	} {
		note(c.boot, c.bytes, c.ago)
		p := f.plan()
		held := false
		for _, a := range p.Actions {
			held = held || a.Slot == "db-1" && a.HeldBy(HoldRecovering)
		}
		if noted := p.Slots[1].Recovery.At.Equal(f.now); held != c.held || noted != c.noted {
			t.Errorf("%s: held %t, noted %t", name, held, noted)
		}
	}
	f.obs.Slots[1].Report.CaughtUp, f.obs.Slots[1].Report.Health = f.obs.Slots[2].Report.CaughtUp, Healthy
	if got := f.plan().Slots[1].Recovery; got != nil {
		t.Errorf("ready, and noted: %+v", got)
	}
}

func TestR39_AStuckOutdatedSlotIsUpdatedNow(t *testing.T) {
	f := newFixture(3, "none").at(2, "B").sick(2).want("C")
	wantExecutes(t, f.plan(), "UPDATE db-2")
}

func TestR39_AStuckSlotAtTheTargetIsEvidence(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().at(2, "B").sick(2)
	f.rec.Slots[2].WasAvailableAt = revisionOf(f.spec, "A")
	f.op(2, operation.Failed, func(op *operation.Operation) { op.Failure.Cause, op.Reason = operation.CauseDeadline, "too late" })
	p := f.plan()
	wantExecutes(t, p)
	if p.Rollout.State != operation.FailedState || hasAction(p, "db-2") {
		t.Errorf("state %s\n%s", p.Rollout.State, describe(p))
	}
}

func TestR39_ASlotThatNeverBootedAtTheTargetIsNotMovedThereAgain(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().stopped(2)
	f.op(2, operation.Failed, func(op *operation.Operation) { op.Failure.Cause = operation.CauseBootError })
	p := f.plan() // its last admission still names A
	if hasAction(p, "db-2") {
		t.Errorf("the same thing is applied again\n%s", describe(p))
	}
}

func TestR40_AFailedStepBlocksEveryFurtherHealthySlot(t *testing.T) {
	f := newFixture(9, "none").want("B").rolling().at(8, "B").sick(8)
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(4)
	f.op(8, operation.Failed, func(op *operation.Operation) { op.Reason = "too late" })
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-7", HoldFailedStep)
	g := newFixture(9, "none").want("B").rolling().at(8, "B") // it is available again
	g.spec.UpdatePolicy.MaxUnavailableFixed = intp(1)
	g.op(8, operation.Failed, nil)
	p = g.plan()
	wantExecutes(t, p, "UPDATE db-7")
	if p.Rollout.State != operation.Running {
		t.Errorf("state %s", p.Rollout.State)
	}
}

func TestR40_AFailedRestartBlocksToo(t *testing.T) {
	f := newFixture(9, "none").want("B").rolling()
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(4)
	f.op(0, operation.Failed, func(op *operation.Operation) { op.Kind, op.To = operation.Restart, op.From }).at(0, "B").sick(0)
	wantHeld(t, f.plan(), "db-7", HoldFailedStep)
}

func TestR40_AStepInsideItsDeadlineOnlyUsesBudget(t *testing.T) {
	f := newFixture(9, "none").want("B").rolling().op(8, operation.Booting, nil)
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(2)
	wantExecutes(t, f.plan(), "UPDATE db-7")
}

// A removal in progress finishes first, even when a higher Slot is to be removed by now.
func TestR109_ARemovalThatBeganIsFinishedFirst(t *testing.T) {
	for _, kind := range []string{"none", "consul"} {
		f := newFixture(5, kind).rolling()
		f.spec.Replicas, f.spec.Without, f.obs.DeleteDisks = 3, []string{"db-1"}, []string{"db-1", "db-4"}
		wantExecutes(t, f.plan(), "DELETE db-4")
		f.op(1, operation.Draining, func(op *operation.Operation) { op.Kind = operation.Delete })
		p := f.plan()
		wantExecutes(t, p)
		wantHeld(t, p, "db-4", HoldScaleInOrder)
	}
}

// TestR48_ADeadVoterIsTheFirstOfTheTerminatingMembers: without a healthy voter, the others would be too few to decide
// the removal.
func TestR48_ADeadVoterIsTheFirstOfTheTerminatingMembers(t *testing.T) {
	for kind, want := range map[string]string{"consul": "DELETE db-1", "etcd": "DELETE db-1", "none": "DELETE db-3"} {
		f := newFixture(4, kind).rolling().stopped(1)
		f.spec.Replicas, f.obs.DeleteDisks = 1, []string{"db-1", "db-2", "db-3"}
		wantExecutes(t, f.plan(), want)
		f.op(3, operation.Draining, func(op *operation.Operation) { op.Kind = operation.Delete })
		wantExecutes(t, f.plan()) // the step in progress finishes first
	}
	// A member that hangs takes no part either. A silent member may take part.
	for name, c := range map[string]struct {
		faultOf func(f *fixture)
		want    string
	}{
		"it hangs":     {func(f *fixture) { f.sick(1) }, "db-1"},
		"it is silent": {func(f *fixture) { f.silent(1, f.now.Add(-time.Minute)) }, "db-3"},
		"it hangs, and two CVMs carry its name": {func(f *fixture) {
			f.sick(1).obs.Slots[1].Duplicates = []Instance{{VMUUID: "vm-x"}}
		}, "db-3"},
		"it recovers": {func(f *fixture) {
			f.lagging(1, 1<<30).obs.Slots[1].Report.Busy = []string{"it gets a snapshot"}
			f.rec.Slots[1].UnavailableSince = f.now.Add(-time.Minute)
		}, "db-3"},
		"the platform is busy with it": {func(f *fixture) { f.sick(1).obs.Slots[1].Instance.InProgress = true }, "db-3"},
	} {
		f := newFixture(4, "etcd").rolling()
		c.faultOf(f)
		f.spec.Replicas, f.obs.DeleteDisks = 1, []string{"db-1", "db-2", "db-3"}
		if first := newWorld(f.spec, f.rec, f.obs, f.now, f.t).firstTerminating(); first.slot != c.want {
			t.Errorf("%s: %s is removed first, want %s", name, first.slot, c.want)
		}
	}
	f := newFixture(4, "consul").rolling().stopped(1)
	f.spec.Replicas, f.obs.DeleteDisks = 1, []string{"db-2", "db-3"}
	wantHeld(t, f.plan(), "db-1", HoldDeleteDisks)
}

func TestR41_TerminatingSlotsAreNeverUpdated(t *testing.T) {
	f := newFixture(4, "none").want("B")
	f.spec.Replicas = 3
	p := f.plan()
	if a := actionOf(t, p, "db-3"); a.Kind != operation.Delete || a.To != "" {
		t.Errorf("action %+v", a)
	}
}

func TestScaleInTakesTheHighestWhileAllOthersAreFine(t *testing.T) {
	f := newFixture(5, "none")
	f.spec.Replicas, f.obs.DeleteDisks = 3, []string{"db-3", "db-4"}
	p := f.plan()
	wantExecutes(t, p, "DELETE db-4")
	wantHeld(t, p, "db-3", HoldScaleInOrder)
	f.sick(1)
	p = f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-4", HoldOthersUnavailable)
}

func TestOPS03_ScaleInNeverDeletesAPreservedDisk(t *testing.T) {
	f := newFixture(4, "none")
	f.spec.Replicas, f.spec.PreservedState.Disk = 3, "data"
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-3", HoldPreservedState)
	if len(p.Slots) != 4 {
		t.Errorf("%d records, want the terminating one kept", len(p.Slots))
	}
}

func TestScaleInForgetsTheRecordOnceTheCVMIsGone(t *testing.T) {
	f := newFixture(4, "none")
	f.spec.Replicas = 3
	f.obs.Slots = f.obs.Slots[:3]
	p := f.plan()
	if len(p.Forget) != 0 {
		t.Errorf("forgets %v after one listing without its CVM", p.Forget)
	}
	f.rec.Slots[3].MissedSince = f.now.Add(-goneFor)
	p = f.plan()
	if len(p.Slots) != 3 || len(p.Forget) != 1 || p.Forget[0] != "db-3" {
		t.Errorf("%d records, forget %v", len(p.Slots), p.Forget)
	}
	f.blind("the platform")
	if p = f.plan(); len(p.Forget) != 0 {
		t.Errorf("forgets %v without having looked", p.Forget)
	}
}

func TestR135_ScaleInNeedsTheDiskGivenUp(t *testing.T) {
	f := newFixture(4, "none")
	f.spec.Replicas = 3
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-3", HoldDeleteDisks)
	f.obs.DeleteDisks = []string{"db-2"}
	wantHeld(t, f.plan(), "db-3", HoldDeleteDisks)
	f.obs.DeleteDisks = []string{"db-3"}
	wantExecutes(t, f.plan(), "DELETE db-3")
}

// A removal asks the workload, as any other step does.
func TestR52_ScaleInAsksTheWorkload(t *testing.T) {
	f := newFixture(4, "patroni")
	f.spec.Replicas, f.obs.DeleteDisks = 3, []string{"db-3"}
	f.obs.Slots[3].Report.MayDisrupt, f.obs.Slots[3].Report.MayDisruptReason = false, "a base backup is taken from it"
	wantHeld(t, f.plan(), "db-3", HoldMayDisrupt)
	f.obs.Slots[3].Report.MayDisrupt, f.obs.Slots[3].Report.Busy = true, []string{"backup"}
	wantHeld(t, f.plan(), "db-3", HoldBusy)
}
