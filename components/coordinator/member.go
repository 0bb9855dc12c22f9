package coordinator

import (
	"context"
	"net/netip"
	"time"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/status"
)

// memberTime bounds the question to the own Consul server: it answers from memory.
const memberTime = 2 * time.Second

// pages are the coordinator's answers at the address of a CVM's agent (decision 37).
func (c *Coordinator) pages() status.Pages {
	return status.Pages{Metrics: c.metrics, Health: c.health, Instance: c.instance}
}

func (c *Coordinator) instance(ctx context.Context) status.Instance {
	out := status.Instance{
		Cluster: c.cfg.Cluster, Group: peering.CoordinatorGroup, Slot: c.cfg.Slot, VIP: c.cfg.vip().String(),
		BootID: c.identity.BootID(), AppID: c.info.AppID, InstanceID: c.info.InstanceID, Term: c.health().Term,
	}
	for n := range c.cfg.Replicas {
		out.Members = append(out.Members, peering.CoordinatorSlot(n))
	}
	ctx, cancel := context.WithTimeout(ctx, memberTime)
	defer cancel()
	address, err := c.consul.RaftLeader(ctx)
	if err != nil {
		out.Member.Message = err.Error()
		return out
	}
	out.Member = memberOf(address, c.cfg.vip(), c.cfg.Replicas)
	return out
}

// memberOf describes the server at self when leader is the address of the Raft leader, "host:port";
// "" means that Raft has none.
func memberOf(leader string, self netip.Addr, replicas int) status.Member {
	if leader == "" {
		return status.Member{Message: "Consul has no Raft leader"}
	}
	out := status.Member{Known: true, Ready: true, Role: "follower"}
	at, err := netip.ParseAddrPort(leader)
	if err != nil {
		return status.Member{Message: "Consul names a Raft leader without an address: " + leader}
	}
	if at.Addr() == self {
		out.Role = "leader"
	}
	for n := range replicas {
		if peering.CoordinatorVIP(n) == at.Addr().String() {
			out.Leader = peering.CoordinatorSlot(n)
		}
	}
	return out
}
