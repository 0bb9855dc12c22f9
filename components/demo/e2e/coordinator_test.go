package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// coordinatorService is the service of a coordinator's CVM.
const coordinatorService = "coordinator"

// TestCoordinatorDeath ends the leading coordinator at each point of a step at which it could leave
// the step partly applied. The next leader continues from the records: each platform call is made
// once, no Slot is disrupted twice (R60, R66, R70). The point after a hand-over is in
// TestCoordinatorDeathAfterHandover.
func TestCoordinatorDeath(t *testing.T) {
	c := ready(t)
	for _, point := range []string{"after-operation-recorded", "after-platform-call", "before-min-ready-ends"} {
		t.Run(point, func(t *testing.T) {
			c.dieAt(t, point, rig.Light, func() { c.apply(t) })
		})
	}
	t.Run("the whole CVM", func(t *testing.T) {
		before := c.look(t)
		c.apply(t)
		c.awaitPhase(t, operation.Booting)
		if err := c.Kill(within(t, rollTime), c.PlatformName(before.leader)); err != nil {
			t.Fatal(err)
		}
		// The other coordinators start the CVM. Where they fail to, the tests that follow would have no
		// coordinator to spare.
		defer func() {
			if !t.Failed() {
				return
			}
			if err := c.Start(within(t, 2*time.Minute), c.PlatformName(before.leader)); err != nil {
				t.Error(err)
			}
		}()
		defer c.answersWithin(t, before.leader, 3*time.Minute)
		c.complete(t, rig.Light)
		if after := c.look(t); after.leader == before.leader || after.term <= before.term {
			t.Errorf("%s leads with term %d; %s with term %d was killed", after.leader, after.term, before.leader, before.term)
		}
		c.wantOneUpdateEach(t, rig.Light, before)
	})
}

// dieAt ends the leading coordinator's process when the rollout that apply starts reaches point,
// and checks its successor's result.
func (c *cluster) dieAt(t *testing.T, point, name string, apply func()) {
	t.Helper()
	before := c.look(t)
	c.arm(t, before.leader, point)
	apply()
	c.complete(t, name)
	after := c.look(t)
	cvm := c.PlatformName(before.leader)
	if got := after.cvms[cvm].Restarts(coordinatorService) - before.cvms[cvm].Restarts(coordinatorService); got != 1 {
		t.Errorf("the coordinator process of %s ended %d times, want once at %s", before.leader, got, point)
	}
	if after.term <= before.term {
		t.Errorf("term %d after the death, %d before", after.term, before.term)
	}
	c.wantOneUpdateEach(t, name, before)
	c.awaitAnswer(t, before.leader)
}

// arm makes a coordinator's process end when it reaches point.
func (c *cluster) arm(t *testing.T, coordinator, point string) {
	t.Helper()
	if err := c.Arm(coordinator, point); err != nil {
		t.Fatalf("arm the failpoint: %v", err)
	}
}

// TestPausedExLeader stops the leader's processes in the middle of its platform call, for longer
// than its Lease. When it continues, with the answer of its call, it must not disturb its successor
// (R61, R62).
func TestPausedExLeader(t *testing.T) {
	c := ready(t)
	before := c.look(t)
	ex := c.PlatformName(before.leader)
	// The call takes effect after the leader has been stopped.
	if err := c.Fault(within(t, time.Minute), "api", "--match", "^PATCH .*/compose_file$", "--effect", "delay", "--delay", "5s"); err != nil {
		t.Fatal(err)
	}
	c.apply(t)
	slot := c.awaitPhase(t, operation.Acting)
	// The record of a call comes before it: paused between the two, the leader has made none.
	c.awaitUpdateCall(t, before)
	if err := c.Fault(within(t, time.Minute), "pause", ex); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := c.Fault(ctx, "resume", ex); err != nil {
			t.Errorf("resume %s: %v", ex, err)
		}
	})
	other := c.at(t, another(before.leader))
	var term uint64
	eventually(t, "another coordinator leads", time.Minute, func(ctx context.Context) error {
		info, err := other.Cluster(ctx)
		if err == nil && (info.GetLeader() == "" || info.GetLeader() == before.leader || info.GetTerm() <= before.term) {
			err = fmt.Errorf("%q leads with term %d", info.GetLeader(), info.GetTerm())
		}
		term = info.GetTerm()
		return err
	})
	eventually(t, "the successor moves on", time.Minute, func(ctx context.Context) error {
		described, err := other.Instance(ctx, slot)
		if err != nil {
			return err
		}
		if s := described.Status; s.Phase == string(operation.Acting) {
			return fmt.Errorf("%s is in phase %s: %s", slot, s.Phase, s.Reason)
		}
		return nil
	})
	if err := c.Fault(within(t, time.Minute), "resume", ex); err != nil {
		t.Fatal(err)
	}
	var low uint64
	eventually(t, "the rollout ends, in the new term", rollTime, func(ctx context.Context) error {
		g, err := other.Group(ctx, rig.Light)
		if err != nil {
			return err
		}
		if g.Status.Term < low {
			t.Errorf("the status went back from term %d to %d", low, g.Status.Term)
		}
		low = g.Status.Term
		if g.Status.ObservedIndex < g.Index || g.Status.RolloutState != string(operation.Complete) || low < term {
			return fmt.Errorf("%s in term %d: %s", g.Status.RolloutState, low, g.Status.Message)
		}
		return nil
	})
	c.awaitAnswer(t, before.leader)
	c.wantOneUpdateEach(t, rig.Light, before)
	c.wantRecordsOf(t, term)
	// The ex-leader and its successor agree who leads, and since when.
	self, err := c.at(t, before.leader).Cluster(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	peer, err := other.Cluster(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if self.GetLeader() != peer.GetLeader() || self.GetTerm() != peer.GetTerm() || self.GetTerm() < term {
		t.Errorf("%s says that %s leads with term %d, another one that %s does with term %d", before.leader,
			self.GetLeader(), self.GetTerm(), peer.GetLeader(), peer.GetTerm())
	}
}

// awaitUpdateCall waits until the platform has got an update call since before, whether or
// not it has taken effect yet.
func (c *cluster) awaitUpdateCall(t *testing.T, before sight) {
	t.Helper()
	eventually(t, "the update call", time.Minute, func(ctx context.Context) error {
		calls, err := c.Calls(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(calls[before.calls:], func(call rig.Call) bool { return call.UpdateAsked() }) {
			return fmt.Errorf("%d calls since, none of them an update", len(calls)-before.calls)
		}
		return nil
	})
}

// wantRecordsOf checks that every record of the last rollout was last written by
// the holder of term or a later one.
func (c *cluster) wantRecordsOf(t *testing.T, term uint64) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	rollouts, err := c.api.Rollouts(ctx, rig.Light)
	if err != nil || len(rollouts) == 0 {
		t.Fatalf("rollouts: %v, %v", rollouts, err)
	}
	if got := rollouts[0].Term; got < term {
		t.Errorf("rollout %s was last written in term %d, want %d", rollouts[0].ID, got, term)
	}
	for _, slot := range slots(rig.Light) {
		for _, op := range c.steps(ctx, t, slot, rollouts[0].ID) {
			if op.Term < term {
				t.Errorf("operation %s of %s was last written in term %d, want %d", op.ID, slot, op.Term, term)
			}
		}
	}
}

// another is a coordinator that is not the given one.
func another(coordinator string) string {
	for n := range rig.Coordinators {
		if name := fmt.Sprintf("coordinator-%d", n); name != coordinator {
			return name
		}
	}
	return ""
}
