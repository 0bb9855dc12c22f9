package lifecycle

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/core/rollout"
	"cadre.dev/raced/synctest"
)

// preparing is a fakeDriver that chooses before it transfers.
type preparing struct {
	*fakeDriver

	fails error
}

func (d preparing) Prepare(_ context.Context, r driver.TransferRequest) (driver.TransferRequest, error) {
	_ = d.called("prepare")
	if d.fails == nil {
		r.Chosen = driver.Choice{Candidate: r.Candidates[0], Epoch: 1}
	}
	return r, d.fails
}

func (d preparing) Transfer(ctx context.Context, r driver.TransferRequest) (driver.Transferred, error) {
	_ = d.called(fmt.Sprintf("by %q:", r.Chosen.Candidate))
	return d.fakeDriver.Transfer(ctx, r)
}

// fakeCallers note when they wait.
type fakeCallers struct{ driver *fakeDriver }

func (c fakeCallers) Pause(context.Context, Key) string {
	_ = c.driver.called("hold")
	return ""
}

func (c fakeCallers) Release(_ context.Context, _ Key, leader string) {
	_ = c.driver.called("release to " + leader)
}

// TestCallersAreNotPausedForThePreparation: the driver prepares while callers are still served, and
// no caller is paused for a hand-over that the driver then refuses.
func TestCallersAreNotPausedForThePreparation(t *testing.T) {
	for name, tc := range map[string]struct {
		fails error
		state rollout.StepState
		calls string
	}{
		"prepared":          {nil, rollout.StepDone, `prepare hold by "db-2": transfer release to db-2 drain`},
		"refused":           {fmt.Errorf("%w: no candidate can", driver.ErrUnsafe), rollout.StepFailed, "prepare"},
		"busy":              {fmt.Errorf("%w: a backup", driver.ErrBusy), rollout.StepFailed, "prepare prepare prepare"},
		"could not prepare": {fmt.Errorf("%w: slow", driver.ErrTransient), rollout.StepDone, `prepare hold by "": transfer release to db-2 drain`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, t.TempDir())
			b.driver.lead(self)
			b.cfg.Callers = fakeCallers{b.driver}
			b.cfg.Member.SetDriver(preparing{b.driver, tc.fails})
			o := drainOrder(1)
			b.Apply(o)
			b.await(o.Key, tc.state)
			if got := b.driver.did(); got != tc.calls {
				t.Errorf("calls %q, want %q", got, tc.calls)
			}
		})
	}
}

// slow is a fakeDriver with slow answers.
type slow struct{ *fakeDriver }

func (d slow) Observe(ctx context.Context) (driver.View, error) {
	view, err := d.fakeDriver.Observe(ctx)
	time.Sleep(20 * time.Millisecond)
	return view, err
}

func (d slow) Transfer(ctx context.Context, r driver.TransferRequest) (driver.Transferred, error) {
	time.Sleep(50 * time.Millisecond)
	return d.fakeDriver.Transfer(ctx, r)
}

// TestR86_AStateBeforeTheHandoverIsNoRegainedLeadership: the last known state still shows the
// member as leader when its drain ends, because no look followed the hand-over.
func TestR86_AStateBeforeTheHandoverIsNoRegainedLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.TempDir())
		b.driver.lead(self)
		b.cfg.Member.SetDriver(slow{b.driver})
		time.Sleep(time.Second)
		o := drainOrder(1)
		b.Apply(o)
		time.Sleep(5 * time.Second)
		if got := b.driver.did(); got != "transfer drain" {
			t.Errorf("calls %q: it was drained again", got)
		}
		b.driver.lead(self)
		time.Sleep(5 * time.Second)
		if got := b.driver.did(); got != "transfer drain transfer drain" {
			t.Errorf("calls %q: leadership that came back was kept", got)
		}
		b.stop()
	})
}

// back is a fakeDriver whose member leads again as soon as it is drained, twice, without a state in
// between.
type back struct {
	*fakeDriver

	times int
}

func (d *back) Observe(ctx context.Context) (driver.View, error) {
	view, err := d.fakeDriver.Observe(ctx)
	view.Epoch = 7
	return view, err
}

func (d *back) Drain(ctx context.Context) error {
	err := d.fakeDriver.Drain(ctx)
	if d.times++; d.times < 3 {
		d.lead(self)
	}
	return err
}

// TestR86_LeadershipThatCameBackBetweenTwoLooksIsSeen: no look showed another leader, so the state
// did not change.
func TestR86_LeadershipThatCameBackBetweenTwoLooksIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.TempDir())
		b.driver.lead(self)
		b.cfg.Member.SetDriver(&back{fakeDriver: b.driver})
		time.Sleep(time.Second)
		b.Apply(drainOrder(1))
		time.Sleep(5 * time.Second)
		if got := b.driver.did(); got != "transfer drain transfer drain transfer drain" {
			t.Errorf("calls %q: leadership that came back was kept", got)
		}
		b.stop()
	})
}
