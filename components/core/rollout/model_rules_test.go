package rollout

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

func TestR1_TheOrderOfTheInputDoesNotMatter(t *testing.T) {
	f := newFixture(5, "consul").want("B").rolling().at(4, "B").sick(1)
	f.op(4, operation.Done, nil)
	want := asJSON(t, f.plan())
	for range 3 {
		slices.Reverse(f.obs.Slots)
		slices.Reverse(f.rec.Slots)
		slices.Reverse(f.rec.Operations)
		if got := asJSON(t, f.plan()); got != want {
			t.Fatalf("got %s\nwant %s", got, want)
		}
		f.obs.Slots = append(f.obs.Slots[2:], f.obs.Slots[:2]...)
	}
}

func TestR1_TheInputIsNotWrittenTo(t *testing.T) {
	f := newFixture(3, "consul").want("B").rolling()
	before := asJSON(t, f.rec) + asJSON(t, f.obs)
	f.plan()
	if after := asJSON(t, f.rec) + asJSON(t, f.obs); after != before {
		t.Errorf("changed from %s\nto %s", before, after)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestR2_TheWholePlanWithReasons(t *testing.T) {
	p := newFixture(5, "none").want("B").plan()
	wantExecutes(t, p, "UPDATE db-4")
	if len(p.Actions) != 5 {
		t.Fatalf("%d actions, want 5\n%s", len(p.Actions), describe(p))
	}
	for _, a := range p.Actions[1:] {
		if a.Execute || len(a.Holds) == 0 || a.Holds[0].Message == "" {
			t.Errorf("%s: execute %t, holds %v", a.Slot, a.Execute, a.Holds)
		}
	}
}

func TestR3_ARestartTokenRollsTheGroup(t *testing.T) {
	f := newFixture(3, "none")
	f.spec.RestartToken = "2026-01"
	wantExecutes(t, f.plan(), "UPDATE db-2")
	f = newFixture(3, "none")
	f.spec.UpdatePolicy.HealthyDeadline = group.Duration(time.Hour)
	f.spec.Meta = map[string]string{"a": "b"}
	wantExecutes(t, f.plan())
}

func TestR4_PLT08_OnlyAttestationProvesARevision(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	f.obs.Slots[2].Instance.ComposeHash = hashOf("B") // the platform's report
	f.rec.Slots[2].Assigned = revisionOf(f.spec, "B") // and the Revision that was sent last
	p := f.plan()
	if got := p.Status.Instances[2].Observed; got != revisionOf(f.spec, "A") || p.Status.Updated != 0 {
		t.Errorf("observed %s, %d updated", got, p.Status.Updated)
	}
	actionOf(t, p, "db-2")
}

func TestR4_ABootOfAnotherInstanceProvesNothing(t *testing.T) {
	f := newFixture(3, "none")
	f.obs.Slots[1].Admission.InstanceID = "i-other"
	p := f.plan()
	if i := p.Status.Instances[1]; i.Observed != "" || i.State == "Available" {
		t.Errorf("instance %+v", i)
	}
}

func TestR5_StableMovesOnlyWhenARolloutCompletes(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().at(2, "B").at(1, "B")
	f.op(0, operation.Failed, nil).stopped(0)
	p := f.plan()
	if a := revisionOf(f.spec, "A"); p.Stable != a || p.Status.Stable != a || p.Rollout.From != a {
		t.Errorf("stable %s, from %s, want %s", p.Stable, p.Rollout.From, a)
	}
	f = newFixture(3, "none").want("B").rolling().at(2, "B").at(1, "B").at(0, "B")
	if p = f.plan(); p.Stable != p.Target || p.Rollout.State != operation.Complete {
		t.Errorf("stable %s, state %s", p.Stable, p.Rollout.State)
	}
}

func TestR5_AssignedMovesWhenTheIntentIsRecorded(t *testing.T) {
	f := newFixture(3, "none").want("B")
	p := f.plan()
	if p.Slots[2].Assigned != revisionOf(f.spec, "A") {
		t.Errorf("assigned moved with the plan alone")
	}
	op, ok := p.Begin(p.Actions[0], 4, f.now)
	if !ok || op.To != p.Target || op.From != revisionOf(f.spec, "A") || op.Term != 4 || op.Order != 1 || op.Rollout != p.Rollout.ID {
		t.Errorf("operation %+v", op)
	}
	if p.Slots[2].Assigned != p.Target || p.Rollout.Steps != 1 {
		t.Errorf("assigned %s, %d steps", p.Slots[2].Assigned, p.Rollout.Steps)
	}
}

func TestR6_CompleteNeedsEveryProofAndAvailability(t *testing.T) {
	all := func() *fixture { return newFixture(3, "none").want("B").rolling().at(0, "B").at(1, "B").at(2, "B") }
	if p := all().plan(); p.Rollout.State != operation.Complete || len(p.Actions) != 0 {
		t.Fatalf("state %s\n%s", p.Rollout.State, describe(p))
	}
	for name, f := range map[string]*fixture{
		"one outdated":    all().at(1, "A"),
		"one unavailable": all().sick(1),
		"one in a step":   all().op(1, operation.Settling, nil),
		"blind":           all(),
	} {
		if name == "blind" {
			f.blind("the platform")
		}
		if p := f.plan(); p.Rollout.State != operation.Running || p.Stable == p.Target {
			t.Errorf("%s: state %s, stable %s", name, p.Rollout.State, p.Stable)
		}
	}
}

func TestR6_ATargetThatIsThereAlreadyCompletesAtOnce(t *testing.T) {
	f := newFixture(3, "none")
	f.rec.Rollout, f.rec.Status = nil, group.Status{Group: "db"}
	p := f.plan()
	if p.Rollout.State != operation.Complete || p.Stable != p.Target || p.Generation != 1 || len(p.Actions) != 0 {
		t.Errorf("state %s\n%s", p.Rollout.State, describe(p))
	}
}

func TestR6_PartitionReachedIsNotComplete(t *testing.T) {
	f := newFixture(3, "none").want("B")
	f.spec.UpdatePolicy.Partition = 2
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-2")
	if len(p.Actions) != 1 {
		t.Errorf("actions below the partition\n%s", describe(p))
	}
	f.rolling().at(2, "B")
	p = f.plan()
	if p.Rollout.State != operation.PartitionReached || p.Stable == p.Target || len(p.Actions) != 0 {
		t.Errorf("state %s, stable %s", p.Rollout.State, p.Stable)
	}
	f.rec.Rollout, f.spec.UpdatePolicy.Partition = p.Rollout, 0
	p = f.plan()
	wantExecutes(t, p, "UPDATE db-1")
	if p.Rollout.State != operation.Running || !p.Rollout.EndedAt.IsZero() {
		t.Errorf("lowering the partition: state %s", p.Rollout.State)
	}
}

func TestR6_ASlotLostAfterwardsDoesNotReopenTheRollout(t *testing.T) {
	p := newFixture(3, "none").sick(1).plan()
	if p.Rollout.State != operation.Complete || len(p.Actions) != 0 || p.Status.Available != 2 {
		t.Errorf("state %s\n%s", p.Rollout.State, describe(p))
	}
}

func TestR7_PLT01_OneMissingInputIsNotAvailable(t *testing.T) {
	f := newFixture(3, "consul")
	if p := f.plan(); p.Status.Available != 3 {
		t.Fatalf("%d available\n%s", p.Status.Available, describe(p))
	}
	no := false
	for name, edit := range map[string]func(*SlotObservation){
		"not running":         func(o *SlotObservation) { o.Instance.Status = "stopped" },
		"task in progress":    func(o *SlotObservation) { o.Instance.InProgress = true },
		"boot error":          func(o *SlotObservation) { o.Instance.BootError = "x" },
		"no CVM":              func(o *SlotObservation) { o.Instance = nil },
		"another CVM":         func(o *SlotObservation) { o.Instance.VMUUID = "vm-x" },
		"two CVMs":            func(o *SlotObservation) { o.Duplicates = []Instance{{VMUUID: "vm-x"}} },
		"not admitted":        func(o *SlotObservation) { o.Admission = nil },
		"another instance":    func(o *SlotObservation) { o.Admission.InstanceID = "i-x" },
		"no report":           func(o *SlotObservation) { o.Report = nil },
		"another boot's word": func(o *SlotObservation) { o.Report.BootID = "boot-x" },
		"stale report":        func(o *SlotObservation) { o.Report.ReceivedAt = f.now.Add(-31 * time.Second) },
		"unhealthy":           func(o *SlotObservation) { o.Report.Health = Unhealthy },
		"unknown health":      func(o *SlotObservation) { o.Report.Health = Unknown },
		"no health":           func(o *SlotObservation) { o.Report.Health = "" },
		"member down":         func(o *SlotObservation) { o.Report.Liveness = LivenessRefused },
		"member not ready":    func(o *SlotObservation) { o.Report.MemberReady = false },
		"role unknown":        func(o *SlotObservation) { o.Report.Role = RoleUnknown },
		"behind":              func(o *SlotObservation) { o.Report.CaughtUp = &no },
		"lag unknown":         func(o *SlotObservation) { o.Report.CaughtUp = nil },
	} {
		g := newFixture(3, "consul")
		edit(&g.obs.Slots[2])
		p := g.plan()
		if p.Status.Available != 2 || p.Status.Instances[2].Reason == "" || !p.Slots[2].AvailableSince.IsZero() {
			t.Errorf("%s: %d available, reason %q, since %s", name, p.Status.Available, p.Status.Instances[2].Reason, p.Slots[2].AvailableSince)
		}
	}
}

func TestR7_AStepIsNotAvailability(t *testing.T) {
	p := newFixture(3, "none").want("B").rolling().op(1, operation.Draining, nil).plan()
	if p.Status.Available != 2 || p.Status.Instances[1].State != "Draining" {
		t.Errorf("%d available, state %s", p.Status.Available, p.Status.Instances[1].State)
	}
}

func TestR8_TheClockStartsRunsAndIsReached(t *testing.T) {
	f := newFixture(1, "none")
	f.t.StaleAfter = time.Minute
	f.rec.Slots[0].AvailableSince = time.Time{}
	p := f.plan()
	since := p.Slots[0].AvailableSince
	if !since.Equal(f.now) || p.Status.Available != 0 {
		t.Fatalf("since %s, %d available", since, p.Status.Available)
	}
	if want := f.now.Add(29 * time.Second); !p.Wake.Equal(want.Add(time.Millisecond)) && !p.Wake.Equal(f.now.Add(30*time.Second)) {
		t.Errorf("wakes at %s", p.Wake)
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{30*time.Second - 1, 0}, {30 * time.Second, 1}} {
		g := newFixture(1, "none")
		g.rec.Slots[0].AvailableSince = g.now.Add(-c.after)
		if p := g.plan(); p.Status.Available != c.want {
			t.Errorf("after %s: %d available, want %d", c.after, p.Status.Available, c.want)
		}
	}
}

func TestR8_TheControllerWakesAtTheInstant(t *testing.T) {
	f := newFixture(1, "none")
	f.t.StaleAfter = time.Minute
	f.rec.Slots[0].AvailableSince = f.now.Add(-20 * time.Second)
	if p := f.plan(); !p.Wake.Equal(f.now.Add(10 * time.Second)) {
		t.Errorf("wakes at %s, want in 10 s", p.Wake)
	}
}

func TestR8_TheGapRule(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		kept bool
	}{
		"proven by the agent":         {func(*fixture) {}, true},
		"proven over a long gap":      {func(f *fixture) { f.rec.Status.At = f.now.Add(-time.Hour) }, true},
		"a break in the healthy time": {func(f *fixture) { f.obs.Slots[0].Report.HealthyFor = time.Minute }, false},
		"another boot":                {func(f *fixture) { f.rec.Slots[0].AvailableBoot = "boot-before" }, false},
		"booted since":                {func(f *fixture) { f.obs.Slots[0].Report.BootAt = f.now.Add(-time.Minute) }, false},
		"no proof, no gap":            {func(f *fixture) { f.obs.Slots[0].Report.HealthyFor = 0 }, true},
		"no proof over a gap": {func(f *fixture) {
			f.obs.Slots[0].Report.HealthyFor = 0
			f.rec.Status.At = f.now.Add(-31 * time.Second)
		}, false},
	} {
		f := newFixture(1, "none")
		c.edit(f)
		p := f.plan()
		if kept := p.Slots[0].AvailableSince.Equal(epoch); kept != c.kept {
			t.Errorf("%s: since %s, kept %t, want %t", name, p.Slots[0].AvailableSince, kept, c.kept)
		}
	}
}

func TestR8_AFailedListLeavesTheClockAlone(t *testing.T) {
	f := newFixture(1, "none")
	f.blind("the platform").obs.Slots[0].Instance = nil
	p := f.plan()
	if !p.Slots[0].AvailableSince.Equal(epoch) || !p.Slots[0].UnavailableSince.IsZero() || p.Status.Available != 0 {
		t.Errorf("since %s, %d available", p.Slots[0].AvailableSince, p.Status.Available)
	}
}

func TestR12_R13_TheBudgetIsOfTheSpecsSize(t *testing.T) {
	for _, c := range []struct{ percent, size, want int }{{20, 4, 1}, {50, 5, 2}, {34, 9, 3}} {
		f := newFixture(c.size, "none").want("B")
		f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxUnavailablePercent = nil, &c.percent
		if got := len(executes(f.plan())); got != c.want {
			t.Errorf("%d%% of %d: %d begin, want %d", c.percent, c.size, got, c.want)
		}
	}
}

func TestR63_TheActionNamesTheOneCVMAndItsBoot(t *testing.T) {
	a := newFixture(3, "none").want("B").plan().Actions[0]
	if a.CVM.VMUUID != "vm-db-2" || a.CVM.InstanceID != "i-db-2" || a.Before.BootID != "boot-db-2" || a.Attempt != 1 {
		t.Errorf("action %+v", a)
	}
}

func TestR67_ACVMOfTheNameIsBoundNotMadeAgain(t *testing.T) {
	f := newFixture(2, "none").missing(1)
	f.rec.Operations = []operation.Operation{{ID: "o", Rollout: f.rec.Rollout.ID, Group: "db", Slot: "db-1", Kind: operation.Create, Phase: operation.Failed, Call: operation.Call{Number: 1}}}
	f.obs.Slots[1].Instance = &Instance{VMUUID: "vm-x", InstanceID: "i-x", AppID: f.spec.AppID, Status: "running"}
	p := f.plan()
	if p.Slots[1].VMUUID != "vm-x" || p.Slots[1].InstanceID != "i-x" || p.Slots[1].AppID != f.spec.AppID {
		t.Errorf("record %+v", p.Slots[1])
	}
	for _, a := range p.Actions {
		if a.Kind == operation.Create {
			t.Errorf("creates %s again", a.Slot)
		}
	}
}

func TestR67_ASlotWithAnInstanceGetsItsCVM(t *testing.T) {
	f := newFixture(1, "none")
	f.rec.Slots[0].VMUUID = ""
	if p := f.plan(); p.Slots[0].VMUUID != "vm-db-0" || p.Status.Available != 1 {
		t.Errorf("record %+v", p.Slots[0])
	}
	f.rec.Slots[0].InstanceID = "i-other"
	if p := f.plan(); p.Slots[0].VMUUID != "" || p.Status.Available != 0 {
		t.Errorf("record %+v", p.Slots[0])
	}
}

func TestR67_CTL25_AStrangersCVMIsNotBound(t *testing.T) {
	f := newFixture(2, "none").missing(1)
	f.obs.Slots[1].Instance = &Instance{VMUUID: "vm-x", InstanceID: "i-x", AppID: "other", Status: "running"}
	p := f.plan()
	if p.Slots[1].VMUUID != "" {
		t.Errorf("record %+v", p.Slots[1])
	}
	wantHeld(t, p, "db-1", HoldReplaced)
}

func TestR134_PLT05_TwoCVMsOfASlotStopEverythingAboutIt(t *testing.T) {
	f := newFixture(3, "none").want("B")
	f.obs.Slots[2].Duplicates = []Instance{{VMUUID: "vm-x", InstanceID: "i-x"}}
	p := f.plan()
	wantHeld(t, p, "db-2", HoldDuplicate)
	wantExecutes(t, p) // and the member is in U, so the budget is used
	if p.Slots[2].VMUUID != "vm-db-2" {
		t.Errorf("bound to %s", p.Slots[2].VMUUID)
	}
}

func TestR134_AVanishedCVMIsNotReplacedAutomatically(t *testing.T) {
	f := newFixture(3, "none")
	f.obs.Slots[1].Instance = nil
	p := f.plan()
	wantHeld(t, p, "db-1", HoldInstanceMissing)
	if p.Slots[1].InstanceID != "i-db-1" || p.Status.Instances[1].State != "Vanished" {
		t.Errorf("record %+v, state %s", p.Slots[1], p.Status.Instances[1].State)
	}
}

// TestR134_ASlotThatIsWantedAgainAfterItsRemovalIsFilled: the removal belonged to an earlier rollout. Another rollout
// began before its call showed.
func TestR134_ASlotThatIsWantedAgainAfterItsRemovalIsFilled(t *testing.T) {
	f := newFixture(3, "none")
	f.rec.Rollout.ID = "db-0-removes"
	f.op(2, operation.Done, func(op *operation.Operation) { op.Kind, op.To = operation.Delete, "" })
	f.rec.Rollout.ID = "db-1-wants-it"
	f.obs.Slots[2].Instance, f.obs.Slots[2].Admission, f.obs.Slots[2].Report = nil, nil, nil
	p := f.plan()
	if a := actionOf(t, p, "db-2"); a.Kind != operation.Create || p.Slots[2].VMUUID != "" {
		t.Errorf("%s, bound to %q", a.Kind, p.Slots[2].VMUUID)
	}
	f.rec.Operations[0].CVM.VMUUID = "vm-of-before"
	wantHeld(t, f.plan(), "db-2", HoldInstanceMissing)
}

func TestR131_OPS15_UpdatesAreInPlace(t *testing.T) {
	p := newFixture(3, "none").want("B").plan()
	for _, a := range p.Actions {
		if a.Kind != operation.Update {
			t.Errorf("%s by %s", a.Slot, a.Kind)
		}
	}
	op, _ := p.Begin(p.Actions[0], 1, epoch)
	if op.CVM.VMUUID != "vm-db-2" {
		t.Errorf("operation on %s", op.CVM.VMUUID)
	}
}

func TestRefusalIsShownWhileItIsNews(t *testing.T) {
	f := newFixture(1, "none")
	f.obs.Slots[0].Refusal = &policy.Refusal{Code: "REVISION_NOT_ALLOWED", Message: "no", At: f.now}
	if got := f.plan().Status.Instances[0].LastRefusal; got != "REVISION_NOT_ALLOWED: no" {
		t.Errorf("last refusal %q", got)
	}
	f.obs.Slots[0].Refusal.At = epoch.Add(-time.Hour)
	if got := f.plan().Status.Instances[0].LastRefusal; got != "" {
		t.Errorf("last refusal %q is older than the admission", got)
	}
}

// TestR11_AReportOfTheFutureIsNotFresh: the clock was set back since the report came, so its age is unknown. If it
// counted as fresh, its healthy time would restart in each pass.
func TestR11_AReportOfTheFutureIsNotFresh(t *testing.T) {
	f := newFixture(3, "none")
	f.obs.Slots[1].Report.ReceivedAt = f.now.Add(time.Hour)
	if m := newWorld(f.spec, f.rec, f.obs, f.now, f.t).find("db-1"); m.report != nil || m.ready {
		t.Error("an hour from now is fresh")
	}
	f.obs.Slots[1].Report.ReceivedAt = f.now.Add(time.Second)
	if m := newWorld(f.spec, f.rec, f.obs, f.now, f.t).find("db-1"); m.report == nil {
		t.Error("clocks that differ by a second make an agent silent")
	}
}

// TestR8_TheClockNeverStartsInTheFuture: the clock of the leader before was ahead, and the clock of the coordinator
// that received the report is a little ahead too.
func TestR8_TheClockNeverStartsInTheFuture(t *testing.T) {
	for ahead, want := range map[time.Duration]time.Duration{3 * time.Second: 0, -time.Second: -2 * time.Second} {
		f := newFixture(1, "none")
		f.rec.Slots[0].AvailableSince = f.now.Add(time.Hour)
		r := f.obs.Slots[0].Report
		r.ReceivedAt, r.HealthyFor = f.now.Add(ahead), time.Second
		if got := f.plan().Slots[0].AvailableSince; !got.Equal(f.now.Add(want)) {
			t.Errorf("a report of %s ahead: available since %s, want %s", ahead, got.Sub(f.now), want)
		}
	}
}
