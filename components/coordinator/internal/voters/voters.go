package voters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"
)

// callLimit bounds one call.
const callLimit = 10 * time.Second

// Server is one server in the configuration of Raft.
type Server struct {
	// Node is the Slot of its coordinator.
	Node   string
	Voter  bool
	Leader bool
	// Healthy is autopilot's judgement.
	Healthy bool

	id string
}

// Voters acts on the set through the local server. Safe for concurrent use.
type Voters struct{ client *consul.Client }

// New returns Voters of the local Consul at address (host:port), with the management token. It does
// not connect.
func New(address, token string) (*Voters, error) {
	client, err := consul.NewClient(&consul.Config{Address: address, Token: token,
		HttpClient: &http.Client{Timeout: callLimit, Transport: &http.Transport{IdleConnTimeout: time.Minute}}})
	if err != nil {
		return nil, fmt.Errorf("make consul client: %w", err)
	}
	return &Voters{client: client}, nil
}

// List returns the servers, sorted by node.
func (v *Voters) List(ctx context.Context) ([]Server, error) {
	q := (&consul.QueryOptions{}).WithContext(ctx)
	raft, err := v.client.Operator().RaftGetConfiguration(q)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of raft: %w", err)
	}
	health, err := v.client.Operator().AutopilotServerHealth(q)
	if err != nil {
		return nil, fmt.Errorf("read autopilot's health: %w", err)
	}
	healthy := map[string]bool{}
	for _, s := range health.Servers {
		healthy[s.ID] = s.Healthy
	}
	out := make([]Server, 0, len(raft.Servers))
	for _, s := range raft.Servers {
		out = append(out, Server{Node: s.Node, Voter: s.Voter, Leader: s.Leader, Healthy: healthy[s.ID], id: s.ID})
	}
	slices.SortFunc(out, func(a, b Server) int { return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.id, b.id)) })
	return out, nil
}

// Transfer moves the leadership of Raft away from the server of node self, if self leads: to the
// server of node to, or to any voter if to is "". It reports whether self led.
func (v *Voters) Transfer(ctx context.Context, self, to string) (moved bool, err error) {
	servers, err := v.List(ctx)
	if err != nil {
		return false, err
	}
	id := ""
	for _, s := range servers {
		if s.Node == to && s.Voter && s.Healthy {
			id = s.id
		}
	}
	switch {
	case !slices.ContainsFunc(servers, func(s Server) bool { return s.Leader && s.Node == self }):
		return false, nil // Consul would move the leadership of another server
	case to != "" && id == "":
		return false, fmt.Errorf("raft_to: %q has no healthy voter to take the leadership of raft over", to)
	}
	got, err := v.client.Operator().RaftLeaderTransfer(id, (&consul.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return false, fmt.Errorf("transfer the leadership of raft: %w", err)
	}
	return got.Success, nil
}

// Why a server is not removed.
var (
	ErrHealthy   = errors.New("the server is healthy")
	ErrOthersBad = errors.New("not all other servers are healthy voters")
)

// Remove removes the server of a node from Raft and from gossip, so that a server with an empty disk
// may take its name. It refuses a healthy server, and any while another server is not a healthy
// voter. removed is false if Raft has no such server.
func (v *Voters) Remove(ctx context.Context, node string) (removed bool, err error) {
	servers, err := v.List(ctx)
	if err != nil {
		return false, err
	}
	var ids []string
	for _, s := range servers {
		switch {
		case s.Node == node && s.Healthy:
			return false, fmt.Errorf("%w: %s", ErrHealthy, node)
		case s.Node == node:
			ids = append(ids, s.id)
		case !s.Voter || !s.Healthy:
			return false, fmt.Errorf("%w: %s", ErrOthersBad, s.Node)
		}
	}
	for _, id := range ids {
		if err := v.client.Operator().RaftRemovePeerByID(id, (&consul.WriteOptions{}).WithContext(ctx)); err != nil {
			return false, fmt.Errorf("remove %s from raft: %w", node, err)
		}
	}
	// Otherwise the catalog keeps the name for the lost server.
	if err := v.client.Agent().ForceLeaveOptions(node, consul.ForceLeaveOpts{Prune: true}, (&consul.QueryOptions{}).WithContext(ctx)); err != nil && !unknownMember(err) {
		return len(ids) > 0, fmt.Errorf("remove %s from gossip: %w", node, err)
	}
	return len(ids) > 0, nil
}

// unknownMember: gossip has forgotten the node.
func unknownMember(err error) bool {
	return strings.Contains(err.Error(), "agent: No node found with name")
}
