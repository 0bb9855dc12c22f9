package e2e_upgrade

import (
	"context"
	"fmt"
	"testing"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// release is an image and the version of Consul in it.
type release struct{ image, version string }

var (
	olderConsul = release{"consul1226", "1.22.6"}
	newerConsul = release{"consul", "1.22.7"}
)

// TestConsulServersGoToANewerPatchAndBack rolls the three servers of clusters/consul to a newer patch release and back while
// clients of another group write keys: one server at a time on its disk, the leader last, after a hand-over. No
// acknowledged write is missing at the end.
func TestConsulServersGoToANewerPatchAndBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s := begin(ctx, t, "consul")
	s.must("deploy Consul", s.DeployConsul(ctx, s.n, olderConsul.image, olderConsul.version))
	clients, err := s.ConsulClients(ctx)
	s.must("start the clients", err)
	t.Cleanup(clients.Close)
	_, err = clients.Span(ctx, 300)
	s.must("wait for steady writes", err)

	was := s.servers(ctx, clients, olderConsul)
	was = s.rollsConsul(ctx, clients, was, newerConsul)
	s.rollsConsul(ctx, clients, was, olderConsul)

	acknowledged, missing, err := clients.End(ctx)
	s.must("stop the clients and read their keys", err)
	s.n.Say("%d writes acknowledged, %d missing", acknowledged, len(missing))
	if len(missing) > 0 {
		s.Errorf("%d of %d acknowledged writes are missing: %q is one", len(missing), acknowledged, missing[0])
	}
}

// servers asks all servers, and fails unless all run the release.
func (s *story) servers(ctx context.Context, clients *rig.ConsulClients, want release) map[string]rig.ConsulServer {
	s.Helper()
	all := map[string]rig.ConsulServer{}
	for n := range 3 {
		slot := fmt.Sprintf("%s-%d", rig.Consul, n)
		one, err := clients.Server(ctx, slot)
		s.must("ask "+slot, err)
		if one.Version != want.version {
			s.Errorf("%s runs Consul %s, want %s", slot, one.Version, want.version)
		}
		all[slot] = one
	}
	return all
}

// rollsConsul rolls all servers to another release, and returns their reports.
func (s *story) rollsConsul(ctx context.Context, clients *rig.ConsulClients, was map[string]rig.ConsulServer, to release) map[string]rig.ConsulServer {
	s.Helper()
	s.n.Say("rolling to Consul %s", to.version)
	_, err := clients.Span(ctx, 100)
	s.must("wait for writes", err)
	s.must("apply Consul "+to.version, s.ApplyConsul(ctx, to.image, to.version))
	_, err = s.Follow(ctx, rig.Consul, s.n.Rollout)
	s.must("roll to Consul "+to.version, err)
	wrote, err := clients.Span(ctx, 100)
	s.must("wait for writes", err)
	rollout, slots, err := s.RolloutReport(ctx, rig.Consul)
	s.must("read the rollout's record", err)
	if rollout.State != operation.Complete || len(slots) != 3 || rollout.Transfers > 1 {
		s.Fatalf("the rollout is %s after %d steps and %d hand-overs: %s", rollout.State, len(slots), rollout.Transfers, rollout.Reason)
	}
	is := s.servers(ctx, clients, to)
	for i, slot := range slots {
		if !slot.Admitted || is[slot.Slot].ID != was[slot.Slot].ID {
			s.Errorf("%s was server %s and is %s, admitted %t", slot.Slot, was[slot.Slot].ID, is[slot.Slot].ID, slot.Admitted)
		}
		// An election on a loaded machine makes a hand-over unnecessary.
		if slot.Led != (i == 2 && rollout.Transfers == 1) {
			s.Errorf("%s went as number %d, led %t; %d hand-overs", slot.Slot, i+1, slot.Led, rollout.Transfers)
		}
		s.n.Say("  %-9s unavailable %.1f s", slot.Slot, float64(slot.UnavailableMS)/1000)
	}
	s.n.Say("Consul %s in %.0f s: %d hand-overs, %d elections, %d writes acknowledged, %d failed, longest gap %d ms", to.version,
		rollout.EndedAt.Sub(rollout.StartedAt).Seconds(), rollout.Transfers, is["consul-0"].Term-was["consul-0"].Term, wrote.Acknowledged, wrote.Failed, wrote.Gap.Milliseconds())
	return is
}
