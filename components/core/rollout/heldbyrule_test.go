package rollout

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// downFor stops a member's CVM without a step, some time ago, in a group that heals.
func (f *fixture) downFor(i int, d time.Duration) *fixture {
	f.spec.AutoHealing = &group.AutoHealing{}
	f.spec.Normalize()
	f.obs.Slots[i].Instance.Status, f.obs.Slots[i].Report = "stopped", nil
	f.rec.Slots[i].DownSince, f.rec.Slots[i].UnavailableSince = f.now.Add(-d), f.now.Add(-d)
	return f
}

// TestR116_ARuleThatHoldsAnUpdateHoldsNoRepair: an outdated member that is down is healed at the Revision that it runs.
func TestR116_ARuleThatHoldsAnUpdateHoldsNoRepair(t *testing.T) {
	step := group.Gate{Name: "g", On: []string{group.GateOnStep}}
	slot := group.Gate{Name: "g", On: []string{group.GateOnStep}, Per: group.GatePerSlot}
	lastOld := func() *fixture {
		return versionFixture(3, "etcd", "etcd:3.5.35", "etcd:3.6.16").runs("3.6.16", "3.5.0", 0, 1).runs("3.5.35", "3.5.0", 2).atTarget(0).atTarget(1)
	}
	for name, f := range map[string]*fixture{
		"a gate of the group":       newFixture(3, "none").want("B").gate(step),
		"a gate of the slot":        newFixture(3, "none").want("B").gate(slot),
		"the last of the old ones":  lastOld(),
		"a step that never works":   versionFixture(3, "etcd", "etcd:3.5.35", "etcd:3.7.3").runs("3.5.35", "3.5.0", 0, 1, 2),
		"a rollout that is on hold": newFixture(3, "none").want("B").gate(step, group.Gate{Name: "h", On: []string{group.GateOnCreate}}),
	} {
		f.rolling()
		f.downFor(2, time.Hour)
		healed := slices.ContainsFunc(f.plan().Actions, func(a Action) bool {
			return a.Slot == "db-2" && a.Actor == operation.ActorHealing && a.Execute
		})
		if !healed {
			t.Errorf("%s: db-2 is not healed: %+v", name, f.plan().Actions)
		}
	}
}

// TestAReplacementJoinsTheDataOfTheOthers: a version that never works with their data is held, because the disk is
// gone afterwards.
func TestAReplacementJoinsTheDataOfTheOthers(t *testing.T) {
	for to, want := range map[string]bool{"etcd:3.7.3": true, "etcd:3.6.16": false} {
		f := versionFixture(3, "etcd", "etcd:3.5.35", to).runs("3.5.35", "3.5.0", 0, 1, 2)
		f.asksFor(RequestReplace, "db-2", "q")
		if got := slices.Contains(holdsAt(f.plan(), "db-2"), HoldVersionStep); got != want {
			t.Errorf("a replacement at %s: held %t", to, got)
		}
	}
}

// TestTheWayBackThatIsClosedIsNotAskedAbout: the data of the other members has moved, so that waiting keeps nothing.
func TestTheWayBackThatIsClosedIsNotAskedAbout(t *testing.T) {
	for data, want := range map[string]bool{"3.5.0": true, "3.6.0": false} {
		f := versionFixture(3, "etcd", "etcd:3.5.35", "etcd:3.6.16").runs("3.6.16", data, 0, 1).runs("3.5.35", "3.5.0", 2).atTarget(0).atTarget(1)
		f.rolling()
		if got := slices.Contains(holdsAt(f.plan(), "db-2"), HoldIrreversible); got != want {
			t.Errorf("the others have data of %s: held %t", data, got)
		}
	}
}

// TestASecretWithoutAValueHoldsBootsAlone: a service is restarted in its Boot, and the rollout waits for the operator
// without an end.
func TestASecretWithoutAValueHoldsBootsAlone(t *testing.T) {
	f := newFixture(3, "none").want("B")
	f.rolling()
	f.rec.NoValue = []string{"s3-key"}
	w := newWorld(f.spec, f.rec, f.obs, f.now, DefaultTiming())
	for what, c := range map[string]candidate{
		"a boot":    {m: w.members[2], kind: operation.Restart},
		"a refresh": {m: w.members[2], kind: operation.Update, refresh: true},
		"a service": {m: w.members[2], kind: operation.Restart, service: "app"},
	} {
		if got := len(w.holdsOfSecrets(c, evaluation{})) > 0; got != (what == "a boot") {
			t.Errorf("%s: held %t", what, got)
		}
	}
	if !w.waitsForDecision() {
		t.Error("the deadline of the rollout runs while the operator's value is missing")
	}
	if holds := w.holdsOfSecrets(candidate{m: w.members[2]}, evaluation{}); len(holds) != 1 || holds[0].Predicate != HoldSecretNoValue {
		t.Errorf("%+v, want %s", holds, policy.CodeSecretNoValue)
	}
}

// TestAGateLetsAStepThatActedFinish: a CVM that was stopped for its change is not left stopped.
func TestAGateLetsAStepThatActedFinish(t *testing.T) {
	f := newFixture(3, "none").want("B").gate(group.Gate{Name: "g", On: []string{group.GateOnStep}})
	f.rolling()
	for parts, want := range map[int]bool{0: true, 1: false} {
		f.rec.Operations = nil
		f.op(2, operation.Drained, func(op *operation.Operation) {
			op.To = f.spec.Revision()
			op.Call.Applied = []operation.Part{operation.PartStop}[:parts]
		})
		op := f.rec.Operations[len(f.rec.Operations)-1]
		if facts := f.facts(op); facts.Paused != want {
			t.Errorf("after %d parts: called off %t (%s)", parts, facts.Paused, facts.PausedBy)
		}
	}
}
