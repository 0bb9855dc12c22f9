package e2e_etcd

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/rollout"
	"cadre.dev/demo/internal/rig"
)

// upgradeLimit bounds the whole test; an idle machine needs a sixth of it.
const upgradeLimit = 9 * time.Minute

// The releases of the two images.
const newerEtcd, olderEtcd = "3.6.16", "3.5.35"

// TestAMinorVersionGoesUpAndBackUnderLoad takes real members back to the older minor version, which is refused until a
// command lowers the data, and then up again while clients write: the rollout waits before the last member, an undo is enough
// until then, and an operator lets the last one pass. No acknowledged write is missing at the end.
func TestAMinorVersionGoesUpAndBackUnderLoad(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), upgradeLimit)
	defer cancel()
	s := begin(ctx, t)
	before := s.identities(ctx)

	s.n.Say("back to %s: refused, since the data is of 3.6", olderEtcd)
	err := s.atVersion(ctx, "etcd35", olderEtcd)
	if err == nil || !strings.Contains(err.Error(), `VERSION_STEP: workload.settings["version"]`) || !strings.Contains(err.Error(), "etcdctl downgrade enable 3.5") {
		t.Fatalf("an apply of %s on data of 3.6: %v", olderEtcd, err)
	}
	_, err = s.Exec(ctx, s.PlatformName("etcd-0"), "etcd", "etcdctl", "--endpoints=127.0.0.1:2379", "downgrade", "enable", "3.5.0")
	s.must("enable the downgrade", err)
	s.must("apply it when the members report the older data", s.untilTaken(ctx, "etcd35", olderEtcd))
	_, err = s.Follow(ctx, rig.Etcd, s.n.Rollout)
	s.must("roll back", err)
	s.runs(ctx, 0)

	from := time.Now()
	s.n.Say("up to %s: it waits before the last member", newerEtcd)
	s.must("apply it", s.atVersion(ctx, "etcd", newerEtcd))
	s.awaitLast(ctx)
	s.runs(ctx, 2)
	s.n.Say("an undo is enough")
	_, err = s.Cadre(ctx, "rollout", "undo", rig.Etcd, "--yes", "--wait", "--timeout", "2m")
	s.must("undo", err)
	s.runs(ctx, 0)

	s.n.Say("up to %s again, and past the point of no return", newerEtcd)
	s.must("apply it", s.atVersion(ctx, "etcd", newerEtcd))
	last := s.awaitLast(ctx)
	_, err = s.Cadre(ctx, "instance", "update", last, "--reason", "the backup is there")
	s.must("let "+last+" pass", err)
	_, err = s.Follow(ctx, rig.Etcd, s.n.Rollout)
	s.must("roll", err)
	s.runs(ctx, 3)

	s.must("wait for writes", s.AwaitRegisterWrites(ctx, time.Now(), 100))
	summary, err := s.RegisterSummary(ctx, from, time.Now())
	s.must("ask for the figures", err)
	after := s.identities(ctx)
	for slot, was := range before {
		if after[slot].ID != was.ID || after[slot].instance != was.instance {
			s.Errorf("%s was %s in %s, and is %s in %s", slot, was.ID, was.instance, after[slot].ID, after[slot].instance)
		}
	}
	checked, found, err := s.StopRegisters(ctx)
	s.must("stop the clients", err)
	s.servedAllTheTime(summary)
	s.keptPromises(checked, found)
	s.n.Say("upgrade, undo and upgrade: %d writes acknowledged, %d unknown, longest gap %d ms", summary.Acknowledged, summary.Unknown, summary.Gap.Milliseconds())
}

// atVersion applies the group with an image and the version that the image has.
func (s *story) atVersion(ctx context.Context, image, version string) error {
	return s.ApplyEtcdOf(ctx, image, s.release(), "etcd_version="+version)
}

// untilTaken applies until the coordinators know that the members' data fits.
func (s *story) untilTaken(ctx context.Context, image, version string) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := s.atVersion(ctx, image, version)
		if err == nil || !strings.Contains(err.Error(), "VERSION_STEP") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// awaitLast waits until only the last member waits, for an operator, and returns its Slot.
func (s *story) awaitLast(ctx context.Context) string {
	s.Helper()
	c, err := s.Client()
	s.must("dial the cluster", err)
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		v, err := c.Look(ctx, rig.Etcd)
		s.must("look at the group", err)
		s.n.Rollout(v)
		held := func(a rollout.Action) bool {
			return slices.ContainsFunc(a.Holds, func(h rollout.Hold) bool {
				return h.Predicate == rollout.HoldIrreversible && strings.Contains(h.Message, "etcdctl downgrade enable 3.5")
			})
		}
		if at := slices.IndexFunc(v.Plan.Actions, held); at >= 0 && len(v.Plan.Actions) == 1 {
			return v.Plan.Actions[at].Slot
		}
		select {
		case <-ctx.Done():
			s.Fatalf("no step waits for an operator: %s", v.Plan.Message)
		case <-ticker.C:
		}
	}
}

// runs fails unless so many members run the newer version, by their own word, and the data is of 3.6 only with all.
func (s *story) runs(ctx context.Context, newer int) {
	s.Helper()
	n := 0
	for _, slot := range []string{"etcd-0", "etcd-1", "etcd-2"} {
		m, err := s.EtcdMemberOf(ctx, slot)
		s.must("look at "+slot, err)
		if m.Version == newerEtcd {
			n++
		}
		if newer < 3 && strings.HasPrefix(m.Data, "3.6") {
			s.Errorf("the data of %s is of %s", slot, m.Data)
		}
	}
	if n != newer {
		s.Errorf("%d members run %s, want %d", n, newerEtcd, newer)
	}
}
