package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR119_AfterAStormTheOthersHaveTheirTimeAnew: who is still ill a minute after most are back is healed. A
// member that a step made available was in no storm.
func TestR119_AfterAStormTheOthersHaveTheirTimeAnew(t *testing.T) {
	f := heals(5, "none").failing(1, "ready")
	for _, i := range []int{2, 3} {
		f.rec.Slots[i].AvailableSince = f.now.Add(-group.MinReady(f.spec) - stormOver + time.Second)
	}
	p := f.plan()
	wantHeld(t, p, "db-1", HoldHealStorm)
	if want := f.now.Add(time.Second); !p.Clock.Equal(want) {
		t.Errorf("looks again at %s, want %s", p.Clock, want)
	}
	f.op(3, operation.Done, func(op *operation.Operation) { op.EndedAt = f.now })
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.rec.Operations = nil
	f.op(2, operation.Done, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.EndedAt = operation.Restart, operation.ActorHealing, "", f.now
	})
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.rec.Operations = nil
	f.rec.Slots[2].AvailableSince = f.now.Add(-group.MinReady(f.spec) - stormOver)
	wantExecutes(t, f.plan(), "RESTART db-1")
}
