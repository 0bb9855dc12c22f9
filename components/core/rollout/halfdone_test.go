package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR21_TheSecondHalfOfAChangeWaitsForNoMember: the applied part took the member down, and the other of two voters
// waits for it. The other parts take nothing more away. A member that serves between two parts is protected as usual.
// So is a member whose Boot the call has not ended yet.
func TestR21_TheSecondHalfOfAChangeWaitsForNoMember(t *testing.T) {
	half := func() (*fixture, *operation.Operation) {
		f := newFixture(2, "etcd").want("B").rolling()
		f.op(0, operation.Drained, func(op *operation.Operation) {
			op.To, op.Call.Applied, op.Call.Part, op.Before.BootID = revisionOf(f.spec, "B"), []operation.Part{operation.PartOSImage}, operation.PartOSImage, "boot-db-0"
			op.Call.Number, op.Call.Outcome, op.Call.IssuedAt = 1, operation.OutcomeDone, f.now
		})
		f.obs.Slots[0].Report = nil
		r := f.obs.Slots[1].Report
		r.MemberReady, r.Leader, r.Health = false, "", Unhealthy
		return f, &f.rec.Operations[0]
	}
	for name, c := range map[string]struct {
		edit func(f *fixture, op *operation.Operation)
		safe bool
	}{
		"it is down": {func(*fixture, *operation.Operation) {}, true},
		"and said it served": {func(f *fixture, _ *operation.Operation) {
			f.obs.Slots[0].Report = healthyReport("db-0", f.now, "etcd", f.spec.Members())
		}, true},
		"it votes on after the call": {func(f *fixture, op *operation.Operation) {
			op.Call.IssuedAt = f.now.Add(-2 * time.Second)
			f.obs.Slots[0].Report = healthyReport("db-0", f.now, "etcd", f.spec.Members())
		}, false},
		"it spoke when the call must have ended it": {func(f *fixture, op *operation.Operation) {
			op.Call.IssuedAt = f.now.Add(-time.Hour)
			f.obs.Slots[0].Report = healthyReport("db-0", op.Call.IssuedAt.Add(f.t.OrDefault().Settle+time.Second), "etcd", f.spec.Members())
		}, false},
		"it spoke for a moment after the call": {func(f *fixture, op *operation.Operation) {
			op.Call.IssuedAt = f.now.Add(-time.Hour)
			f.obs.Slots[0].Report = healthyReport("db-0", op.Call.IssuedAt.Add(2*time.Second), "etcd", f.spec.Members())
		}, true},
		"a new Boot is not well": {func(f *fixture, _ *operation.Operation) {
			f.obs.Slots[0].Admission.BootID = "boot-2"
			r := healthyReport("db-0", f.now, "etcd", f.spec.Members())
			r.BootID, r.MemberReady, r.Health = "boot-2", false, Unhealthy
			f.obs.Slots[0].Report = r
		}, true},
		"a new Boot was well, and its agent started anew": {func(f *fixture, _ *operation.Operation) {
			f.obs.Slots[0].Admission.BootID, f.rec.Slots[0].AvailableBoot = "boot-2", "boot-2"
			r := healthyReport("db-0", f.now, "etcd", f.spec.Members())
			r.BootID, r.MemberKnown, r.MemberReady, r.Health = "boot-2", false, false, Unknown
			f.obs.Slots[0].Report = r
		}, false},
		"a new Boot serves": {func(f *fixture, _ *operation.Operation) {
			f.obs.Slots[0].Admission.BootID = "boot-2"
			f.obs.Slots[0].Report = healthyReport("db-0", f.now, "etcd", f.spec.Members())
			f.obs.Slots[0].Report.BootID = "boot-2"
		}, false},
		"nobody hears the new Boot": {func(f *fixture, _ *operation.Operation) { f.obs.Slots[0].Admission.BootID = "boot-2" }, false},
		"no part had its effect":    {func(_ *fixture, op *operation.Operation) { op.Call.Applied = nil }, false},
		"nobody looked":             {func(f *fixture, _ *operation.Operation) { f.blind("no answer") }, false},
	} {
		f, op := half()
		c.edit(f, op)
		if facts := f.facts(*op); facts.Safe != c.safe {
			t.Errorf("%s: safe %t: %s", name, facts.Safe, facts.SafeReason)
		}
	}
}

// halfDone adds a step of a Slot that serves between two parts of its change.
func (f *fixture) halfDone(i int) *operation.Operation {
	f.op(i, operation.Drained, func(op *operation.Operation) {
		op.Call.Applied, op.Call.Part, op.Call.Number, op.Call.Outcome = []operation.Part{operation.PartResources}, operation.PartResources, 1, operation.OutcomeDone
		op.Before.BootID, op.Call.IssuedAt = "boot-before", f.now
	})
	return &f.rec.Operations[len(f.rec.Operations)-1]
}

// TestR15_AnExtraSlotIsMadeDuringAnyStep: a partially applied step may wait for that extra Slot.
func TestR15_AnExtraSlotIsMadeDuringAnyStep(t *testing.T) {
	for name, edit := range map[string]func(f *fixture, op *operation.Operation){
		"its next part waits":              func(*fixture, *operation.Operation) {},
		"its next call may have an effect": func(_ *fixture, op *operation.Operation) { op.Phase, op.Call.Outcome = operation.Acting, "" },
		"it boots":                         func(_ *fixture, op *operation.Operation) { op.Phase = operation.Booting },
		"it is down":                       func(f *fixture, _ *operation.Operation) { f.sick(1) },
	} {
		for _, policy := range []group.ManagementPolicy{group.Parallel, group.OrderedReady} {
			f := surged(3, "none").missing(2)
			f.obs.Slots, f.rec.Slots = f.obs.Slots[:3], f.rec.Slots[:3]
			f.spec.ManagementPolicy = policy
			edit(f, f.halfDone(1))
			if a := actionOf(t, f.plan(), "db-3"); a.Kind != operation.Create || !a.Execute {
				t.Errorf("%s, %s: %s: %+v", name, policy, a.Kind, a.Holds)
			}
		}
	}
}

// TestR45_ASickMemberPrecedesAHalfDoneSlot: the Slot of the partially applied step serves, and its next part waits for
// the sick member.
func TestR45_ASickMemberPrecedesAHalfDoneSlot(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture, op *operation.Operation)
		held bool
	}{
		"it stands half done": {func(*fixture, *operation.Operation) {}, false},
		"it goes on":          {func(_ *fixture, op *operation.Operation) { op.Phase = operation.Booting }, true},
		"it is not half done": {func(_ *fixture, op *operation.Operation) { op.Call.Applied = nil }, true},
	} {
		f := newFixture(3, "etcd").want("B").rolling()
		op := f.halfDone(1)
		f.obs.Slots[2].Admission, f.obs.Slots[2].Report = nil, nil
		c.edit(f, op)
		a := actionOf(t, f.plan(), "db-2")
		if held := a.HeldBy(HoldVoterCap); a.Kind != operation.Update || held != c.held {
			t.Errorf("%s: %s: %+v", name, a.Kind, a.Holds)
		}
	}
}
