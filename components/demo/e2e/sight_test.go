package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// sight is the host's knowledge at one moment.
type sight struct {
	cvms map[string]rig.CVM
	// updates counts the in-place updates that each CVM got.
	updates map[string]int
	calls   int
	// term and leader are the coordinators'.
	term   uint64
	leader string
}

// look takes a sight of a cluster that has a leader.
func (c *cluster) look(t *testing.T) sight {
	t.Helper()
	var s sight
	eventually(t, "look at the cluster", time.Minute, func(ctx context.Context) error {
		info, err := c.api.Cluster(ctx)
		if err != nil {
			return err
		}
		if info.GetLeader() == "" {
			return errors.New("no coordinator leads")
		}
		s.term, s.leader = info.GetTerm(), info.GetLeader()
		return nil
	})
	ctx := within(t, 30*time.Second)
	var err error
	if s.cvms, err = c.CVMs(ctx); err != nil {
		t.Fatal(err)
	}
	calls, err := c.Calls(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.updates, s.calls = map[string]int{}, len(calls)
	for _, call := range calls {
		if call.Update() {
			s.updates[call.CVM]++
		}
	}
	return s
}

// wantOneUpdateEach checks that since before each Slot of a group got one update, was booted once,
// and is still the same CVM, and that the last rollout's records agree.
func (c *cluster) wantOneUpdateEach(t *testing.T, name string, before sight) {
	t.Helper()
	want := map[string]int{}
	for _, slot := range slots(name) {
		want[slot] = 1
	}
	c.wantUpdates(t, name, before, want)
	c.wantOneCallPerStep(t, name)
}

// wantUpdates checks how many updates, and so boots, each Slot got since before.
func (c *cluster) wantUpdates(t *testing.T, group string, before sight, want map[string]int) {
	t.Helper()
	after := c.look(t)
	for _, slot := range slots(group) {
		name := c.PlatformName(slot)
		was, is := before.cvms[name], after.cvms[name]
		if got := after.updates[name] - before.updates[name]; got != want[slot] {
			t.Errorf("%s got %d update calls, want %d", name, got, want[slot])
		}
		if got := is.Boots - was.Boots; got != want[slot] {
			t.Errorf("%s was booted %d times, want %d", name, got, want[slot])
		}
		if is.InstanceID != was.InstanceID || is.VMUUID != was.VMUUID {
			t.Errorf("%s is another CVM: instance %s, was %s", name, is.InstanceID, was.InstanceID)
		}
	}
}

// wantOneCallPerStep checks the records of the last rollout.
func (c *cluster) wantOneCallPerStep(t *testing.T, name string) {
	t.Helper()
	var last operation.Rollout
	// Any coordinator can see that all is done a moment before the leader writes it down.
	eventually(t, "the rollout is recorded as complete", 10*time.Second, func(ctx context.Context) error {
		rollouts, err := c.api.Rollouts(ctx, name)
		if err != nil {
			return err
		}
		if last = rollouts[0]; last.State != operation.Complete {
			return fmt.Errorf("rollout %s is %s: %s", last.ID, last.State, last.Reason)
		}
		return nil
	})
	ctx := within(t, 30*time.Second)
	for _, slot := range slots(name) {
		steps := c.steps(ctx, t, slot, last.ID)
		// On a busy machine a member whose reports came late looks unavailable for a moment. A step
		// that began because of that is given up before its call, and planned again, once.
		acted := slices.DeleteFunc(slices.Clone(steps), func(s operation.Operation) bool {
			return s.Phase == operation.Aborted && s.Call.Number == 0
		})
		if len(steps) > 2 || len(acted) != 1 || acted[0].Phase != operation.Done || acted[0].Call.Number != 1 {
			t.Errorf("%s had %d steps in %s, want one that acted, done with one call: %+v", slot, len(steps), last.ID, steps)
		}
	}
}

// steps are the Operations of a Slot in one rollout.
func (c *cluster) steps(ctx context.Context, t *testing.T, slot, rollout string) []operation.Operation {
	t.Helper()
	described, err := c.api.Instance(ctx, slot)
	if err != nil {
		t.Fatal(err)
	}
	var steps []operation.Operation
	for _, op := range described.Operations {
		if op.Rollout == rollout {
			steps = append(steps, op)
		}
	}
	return steps
}

// at is a client of one coordinator and no other.
func (c *cluster) at(t *testing.T, coordinator string) *client.Client {
	t.Helper()
	cvms, err := c.CVMs(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	// The gateway knows an instance by its id as it knows an app.
	where := c.api.Context()
	where.CoordinatorAppID = cvms[c.PlatformName(coordinator)].InstanceID
	one, err := client.Dial(where, client.Options{CallTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = one.Close() })
	return one
}

// awaitAnswer waits until a coordinator answers itself, so that the next death is
// one of three again.
func (c *cluster) awaitAnswer(t *testing.T, coordinator string) {
	t.Helper()
	c.answersWithin(t, coordinator, time.Minute)
}

func (c *cluster) answersWithin(t *testing.T, coordinator string, limit time.Duration) {
	t.Helper()
	one := c.at(t, coordinator)
	eventually(t, coordinator+" answers again", limit, func(ctx context.Context) error {
		info, err := one.Cluster(ctx)
		if err == nil && info.GetSelf() != coordinator {
			err = fmt.Errorf("%s answered", info.GetSelf())
		}
		return err
	})
}

// awaitPhase watches until a Slot of the group is in phase, and returns it.
func (c *cluster) awaitPhase(t *testing.T, phase operation.Phase) string {
	t.Helper()
	slot := ""
	var last client.View
	err := c.api.Watch(within(t, rollTime), rig.Light, 0, func(v client.View) (bool, error) {
		last = v
		for _, i := range v.Status.Instances {
			if i.Phase == string(phase) {
				slot = i.Slot
			}
		}
		return slot == "", nil
	}, nil)
	if err != nil {
		t.Fatalf("wait for a slot in phase %s: %v; last seen: %s", phase, err, last.Status.Message)
	}
	return slot
}
