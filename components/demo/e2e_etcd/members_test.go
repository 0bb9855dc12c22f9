package e2e_etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// membersLimit bounds the whole test; an idle machine needs a third of it.
const membersLimit = 240 * time.Second

// TestMembersComeAndGo rolls real etcd members behind an extra one, and replaces one whose CVM
// is destroyed with its disk, while clients write: the cluster has its three voters at the end
// of each, and no acknowledged write is missing.
func TestMembersComeAndGo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), membersLimit)
	defer cancel()
	s := begin(ctx, t)
	before := s.identities(ctx)

	s.n.Say("rolling to another release behind an extra member")
	s.must("apply the next release", s.ApplyEtcd(ctx, s.next(), "surge=1"))
	_, err := s.Follow(ctx, rig.Etcd, s.n.Rollout)
	s.must("roll", err)
	s.must("wait until the extra member is gone", s.awaitSet(ctx, "etcd-0", "etcd-0", "etcd-1", "etcd-2"))
	s.extraCameAndWent(ctx)
	after := s.identities(ctx)
	for slot, was := range before {
		if after[slot].ID != was.ID || after[slot].instance != was.instance {
			s.Errorf("%s was %s in %s, and is %s in %s", slot, was.ID, was.instance, after[slot].ID, after[slot].instance)
		}
	}

	lost := "etcd-1"
	s.n.Say("destroying the CVM of %s with its disk", lost)
	c, err := s.Client()
	s.must("dial the cluster", err)
	victim, err := c.Instance(ctx, lost)
	s.must("look at "+lost, err)
	s.must("destroy it", s.LoseCVM(ctx, victim.Status.VMUUID))
	_, err = s.Cadre(ctx, "instance", "replace", lost, "--yes", "--reason", "its disk is gone")
	s.must("have it replaced", err)
	s.must("wait until it serves", s.awaitReplaced(ctx, lost, victim.Status.VMUUID))
	s.must("wait for its vote", s.awaitSet(ctx, "etcd-0", "etcd-0", "etcd-1", "etcd-2"))
	if is := s.identities(ctx)[lost]; is.ID == before[lost].ID || is.instance == before[lost].instance {
		s.Errorf("%s is still member %s in %s", lost, is.ID, is.instance)
	}

	// The extra member came and went, and the lost one was taken out before another came in its place.
	s.figuresUntil(ctx, func(f figures) bool {
		changed := func(change string) float64 { return f.of("set_changes_total", `change="`+change+`"`) }
		return changed("add") == 2 && changed("promote") == 2 && changed("remove") == 2
	})

	s.must("wait for writes", s.AwaitRegisterWrites(ctx, time.Now(), 100))
	checked, found, err := s.StopRegisters(ctx)
	s.must("stop the clients", err)
	s.keptPromises(checked, found)
}

// awaitSet waits until slot's member lists exactly these voters.
func (s *story) awaitSet(ctx context.Context, slot string, want ...string) error {
	return s.until(ctx, func() error {
		voters, others, err := s.EtcdSet(ctx, slot)
		if err == nil && (!slices.Equal(voters, want) || others > 0) {
			err = fmt.Errorf("%s lists %v and %d without a vote, want %v", slot, voters, others, want)
		}
		return err
	})
}

// awaitReplaced waits until slot is available in another CVM.
func (s *story) awaitReplaced(ctx context.Context, slot, was string) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	return s.until(ctx, func() error {
		i, err := c.Instance(ctx, slot)
		if err == nil && (i.Status.State != "Available" || i.Status.VMUUID == was) {
			err = fmt.Errorf("%s is %s in %s: %s", slot, i.Status.State, i.Status.VMUUID, i.Status.Reason)
		}
		return err
	})
}

// until repeats ask; the last error names the missing part.
func (s *story) until(ctx context.Context, ask func() error) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-ticker.C:
		}
	}
}

// extraCameAndWent: the rollout made etcd-3 and updated three others, and nothing is left of it.
func (s *story) extraCameAndWent(ctx context.Context) {
	s.Helper()
	rollout, slots, err := s.RolloutReport(ctx, rig.Etcd)
	s.must("read the rollout's record", err)
	if rollout.State != operation.Complete {
		s.Errorf("the rollout is %s: %s", rollout.State, rollout.Reason)
	}
	c, err := s.Client()
	s.must("dial the cluster", err)
	s.must("wait until the extra slot is forgotten", s.until(ctx, func() error {
		instances, err := c.Instances(ctx, rig.Etcd)
		if err == nil && len(instances) != 3 {
			err = fmt.Errorf("%d instances", len(instances))
		}
		return err
	}))
	updated := slices.DeleteFunc(slots, func(slot rig.SlotReport) bool { return slot.Slot == "etcd-3" })
	if len(updated) != 3 {
		s.Errorf("%d updates beside those of the extra member, want 3", len(updated))
	}
	for _, slot := range updated {
		s.n.Say("  %d %-7s led %-5t unavailable %.1f s", slot.Order, slot.Slot, slot.Led, float64(slot.UnavailableMS)/1000)
	}
}
