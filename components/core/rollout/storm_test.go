package rollout

import (
	"strings"
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
	f.op(3, operation.Done, func(op *operation.Operation) { op.Times.Ended = f.now })
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.rec.Operations = nil
	f.op(2, operation.Done, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.Times.Ended = operation.Restart, operation.ActorHealing, "", f.now
	})
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.rec.Operations = nil
	f.rec.Slots[2].AvailableSince = f.now.Add(-group.MinReady(f.spec) - stormOver)
	wantExecutes(t, f.plan(), "RESTART db-1")
}

// TestR119_TheWayOutOfAStormHelps: of several that are silent each needs room in the budget, also where an
// operator asks for it.
func TestR119_TheWayOutOfAStormHelps(t *testing.T) {
	for _, kind := range []string{"none", "patroni"} {
		f := heals(3, kind)
		for _, i := range []int{1, 2} {
			f.silent(i, f.now.Add(-10*time.Minute))
		}
		told := func() string {
			for _, h := range actionOf(t, f.plan(), "db-1").Holds {
				if h.Predicate == HoldHealStorm {
					return h.Message
				}
			}
			return ""
		}
		if got := told(); !strings.HasSuffix(got, ": cadre instance restart db-1") {
			t.Errorf("%s: silent: %q", kind, got)
		}
		f.asks("db-1", "q")
		wantExecutes(t, f.plan(), "RESTART db-1")
		f.asks("db-2", "r")
		wantExecutes(t, f.plan(), "RESTART db-2") // one at a time, also by name
	}
}

// TestR119_AQuorumThatOneMemberLostIsGivenBackByHealing: the only voter hangs, or one of two, whose other one is
// well but for the leader. Nothing is shared, and the others wait for just that one. Whoever cannot be heard may
// have the same.
func TestR119_AQuorumThatOneMemberLostIsGivenBackByHealing(t *testing.T) {
	hung := func(n int) *fixture {
		f := heals(n, "etcd").sick(0)
		f.rec.Slots[0].DownSince = f.now.Add(-time.Hour)
		for i := 1; i < n; i++ {
			r := f.obs.Slots[i].Report
			r.Role, r.Leader, r.MemberReady = RoleFollower, "", false
		}
		return f
	}
	for n := 1; n <= 2; n++ {
		wantExecutes(t, hung(n).plan(), "RESTART db-0")
	}
	f := hung(2)
	f.silent(1, f.now.Add(-time.Minute))
	wantHeld(t, f.plan(), "db-0", HoldHealStorm)
	f = hung(3).missing(2)
	f.failing(1, "ready")
	wantHeld(t, f.plan(), "db-0", HoldHealStorm)
}
