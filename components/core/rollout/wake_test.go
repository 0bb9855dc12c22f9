package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestALeaderLooksAgainAtTheDeadlineOfAStep: no other event may come until then.
func TestALeaderLooksAgainAtTheDeadlineOfAStep(t *testing.T) {
	for phase, set := range map[operation.Phase]func(op *operation.Operation, at time.Time){
		operation.Draining: func(op *operation.Operation, at time.Time) { op.Times.DrainBy = at },
		operation.Booting:  func(op *operation.Operation, at time.Time) { op.Times.HealthyBy = at },
		operation.Joining:  func(op *operation.Operation, at time.Time) { op.Times.HealthyBy = at },
	} {
		f := newFixture(3, "none").want("B").rolling()
		at := f.now.Add(3 * time.Second)
		f.op(1, phase, func(op *operation.Operation) { set(op, at) })
		if p := f.plan(); p.Clock.IsZero() || p.Clock.After(at) {
			t.Errorf("%s: looks again at %s, want %s", phase, p.Clock, at)
		}
	}
}

// TestALeaderLooksAgainWhenAReportGetsStale: no other event shows that an agent stopped reporting. A caller that is
// notified of it need not check the time.
func TestALeaderLooksAgainWhenAReportGetsStale(t *testing.T) {
	f := newFixture(3, "none")
	f.obs.Slots[1].Report.ReceivedAt = f.now.Add(-5 * time.Second)
	stale := f.now.Add(-5 * time.Second).Add(f.t.StaleAfter + time.Millisecond) // the oldest report
	if p := f.plan(); !p.Wake.Equal(stale) || !p.Clock.IsZero() {
		t.Errorf("looks again at %s, want %s; by its clock at %s, want never", p.Wake, stale, p.Clock)
	}
	// The sooner of both times.
	f.rec.Slots[0].AvailableSince = f.now.Add(time.Second - group.MinReady(f.spec))
	if p, at := f.plan(), f.now.Add(time.Second); !p.Wake.Equal(at) || !p.Clock.Equal(at) {
		t.Errorf("looks again at %s and by its clock at %s, want %s", p.Wake, p.Clock, at)
	}
	f.rec.Slots[0].AvailableSince = f.now.Add(20*time.Second - group.MinReady(f.spec))
	if p, at := f.plan(), f.now.Add(20*time.Second); !p.Wake.Equal(stale) || !p.Clock.Equal(at) {
		t.Errorf("looks again at %s, want %s; by its clock at %s, want %s", p.Wake, stale, p.Clock, at)
	}
}
