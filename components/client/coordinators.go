package client

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// CoordinatorFacts is one coordinator's answer about itself and about Consul's servers.
type CoordinatorFacts struct {
	Slot        string `json:"slot"`
	Version     string `json:"version"`
	ComposeHash string `json:"compose_hash"`
	BootID      string `json:"boot_id"`
	// Leader holds the Lease, with this Term; "": none does.
	Leader string `json:"leader,omitempty"`
	Term   uint64 `json:"term"`
	// Halted is why no coordinator can lead until an operator acts.
	Halted string `json:"halted,omitempty"`
	// Sessions is the number of members with a control session to this coordinator.
	Sessions int `json:"sessions"`
	// Connected are the other coordinators with a session to this one, sorted.
	Connected []string `json:"connected,omitempty"`
	// Servers are in the configuration of Raft, sorted by node.
	Servers []ConsulServer `json:"servers"`
	// Older: the coordinator has a version without CoordinatorsService. It cannot step down, and
	// ComposeHash, BootID and Servers are unknown.
	Older bool `json:"older,omitempty"`
}

// ConsulServer is a server in the configuration of Raft.
type ConsulServer struct {
	// Node is the Slot of its coordinator.
	Node    string `json:"node"`
	Voter   bool   `json:"voter"`
	Leader  bool   `json:"leader,omitempty"`
	Healthy bool   `json:"healthy"`
}

// CoordinatorFacts asks the coordinator that Options.Instance selects.
func (c *Client) CoordinatorFacts(ctx context.Context) (CoordinatorFacts, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewCoordinatorsServiceClient(c.conn).GetCoordinators(ctx, &apiv1.GetCoordinatorsRequest{})
	if status.Code(err) == codes.Unimplemented {
		return c.olderFacts(ctx)
	}
	if err != nil {
		return CoordinatorFacts{}, c.wrap("get the coordinators of "+c.ctx.Cluster, err)
	}
	out := CoordinatorFacts{
		Slot: r.GetSelf(), Version: r.GetVersion(), ComposeHash: r.GetComposeHash(), BootID: r.GetBootId(), Leader: r.GetLeader(), Term: r.GetTerm(),
		Halted: r.GetHalted(), Sessions: int(r.GetSessions()), Connected: r.GetConnected(),
	}
	for _, s := range r.GetServers() {
		out.Servers = append(out.Servers, ConsulServer{Node: s.GetNode(), Voter: s.GetVoter(), Leader: s.GetLeader(), Healthy: s.GetHealthy()})
	}
	return out, nil
}

// olderFacts asks a coordinator without CoordinatorsService, by calls that it has.
func (c *Client) olderFacts(ctx context.Context) (CoordinatorFacts, error) {
	info, err := c.Cluster(ctx)
	if err != nil {
		return CoordinatorFacts{}, err
	}
	overlay, err := c.Overlay(ctx, "", "")
	if err != nil {
		return CoordinatorFacts{}, err
	}
	out := CoordinatorFacts{Slot: info.GetSelf(), Version: info.GetVersion(), Leader: info.GetLeader(), Term: info.GetTerm(), Halted: info.GetHalted(), Older: true}
	for _, link := range overlay.Links { // sorted by Peer
		switch {
		case link.Path == "":
		case link.Coordinator:
			out.Connected = append(out.Connected, link.Peer)
		default:
			out.Sessions++
		}
	}
	return out, nil
}

// StepDown has the coordinator that Options.Instance selects give up the Lease and the leadership of
// Raft, which goes to the coordinator raftTo, or to any if raftTo is "". lease and raft report which
// of them it had.
func (c *Client) StepDown(ctx context.Context, raftTo string) (lease, raft bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewCoordinatorsServiceClient(c.conn).StepDown(ctx, &apiv1.StepDownRequest{RaftTo: raftTo})
	return r.GetLease(), r.GetRaft(), c.wrap("have a coordinator step down", err)
}

// RemoveVoter removes the Consul server of a lost coordinator. removed is false when Raft had no such
// server. Kind Invalid when the server is healthy, or another one is unhealthy.
func (c *Client) RemoveVoter(ctx context.Context, slot string) (removed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewCoordinatorsServiceClient(c.conn).RemoveVoter(ctx, &apiv1.RemoveVoterRequest{Slot: slot})
	return r.GetRemoved(), c.wrap("remove the voter of "+slot, err)
}
