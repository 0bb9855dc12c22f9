package server

import (
	"cmp"
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/core/group"
	"cadre.dev/overlaystatus"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
	"cadre.dev/store"
)

// defaultPings is the number of round trips for a call that gives none.
const defaultPings = 5

// asked is a node whose Links the caller may read.
type asked struct {
	slot string
	node overlaystatus.Asked
	// caller filters a coordinator's Links by the groups that it may read. Nil for an agent: a
	// caller that may read a group may see everything that its members see.
	caller *caller
}

// GetOverlay implements ClusterService.
func (s *Server) GetOverlay(ctx context.Context, req *apiv1.GetOverlayRequest) (*apiv1.GetOverlayResponse, error) {
	a, _, err := s.askedFor(ctx, req.GetSlot())
	if err != nil {
		return nil, err
	}
	links, err := a.links(ctx, req.GetPeer())
	if err != nil {
		return nil, err
	}
	return &apiv1.GetOverlayResponse{Slot: a.slot, Links: links}, nil
}

// PingPeer implements ClusterService.
func (s *Server) PingPeer(ctx context.Context, req *apiv1.PingPeerRequest) (*apiv1.PingPeerResponse, error) {
	a, _, err := s.askedFor(ctx, req.GetSlot())
	if err != nil {
		return nil, err
	}
	if err := a.has(ctx, req.GetPeer()); err != nil {
		return nil, err
	}
	out, err := a.node.OverlayPing(ctx, &controlv1.OverlayPingRequest{Peer: req.GetPeer(), Count: cmp.Or(req.GetCount(), defaultPings)})
	if err != nil {
		return nil, err
	}
	return &apiv1.PingPeerResponse{Slot: a.slot, Ping: out.GetPing()}, nil
}

// BenchPeer implements ClusterService.
func (s *Server) BenchPeer(ctx context.Context, req *apiv1.BenchPeerRequest) (*apiv1.BenchPeerResponse, error) {
	a, c, err := s.askedFor(ctx, req.GetSlot())
	if err != nil {
		return nil, err
	}
	if err := overlaystatus.CheckBench(req.GetDuration().AsDuration()); err != nil {
		return nil, err
	}
	if err := c.mayLoad(ctx, a.slot, req.GetPeer()); err != nil {
		return nil, err
	}
	if err := a.has(ctx, req.GetPeer()); err != nil {
		return nil, err
	}
	if err := s.allowBench(ctx, a.slot, req.GetPeer()); err != nil {
		return nil, err
	}
	s.cfg.Log.Info("bench asked for", "slot", a.slot, "peer", req.GetPeer(), "direction", req.GetDirection().String())
	out, err := a.node.OverlayBench(ctx, &controlv1.OverlayBenchRequest{
		Peer: req.GetPeer(), Direction: req.GetDirection(), Duration: req.GetDuration(),
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.BenchPeerResponse{Slot: a.slot, Bench: out.GetBench()}, nil
}

// askedFor returns the node of a Slot, or this coordinator for "", after checking the caller's
// right.
func (s *Server) askedFor(ctx context.Context, slot string) (asked, *caller, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return asked{}, nil, err
	}
	if slot != "" && !isCoordinator(slot) {
		if _, err := c.mayReadSlot(ctx, slot); err != nil {
			return asked{}, nil, err
		}
		node, err := s.agent(slot)
		return asked{slot: slot, node: node}, c, err
	}
	// As for GetCluster, any read right on Cadre's records is enough. Links are filtered by group.
	if _, _, err := c.store.Holder(ctx); err != nil {
		return asked{}, nil, wire(err)
	}
	if slot != "" && slot != s.cfg.Slot {
		return asked{}, nil, status.Errorf(codes.FailedPrecondition,
			"OTHER_COORDINATOR: %s answered and cannot ask %.100s: coordinators speak for themselves; leave the slot out to ask whichever answers", s.cfg.Slot, slot)
	}
	return asked{slot: s.cfg.Slot, node: s.cfg.Overlay, caller: c}, c, nil
}

// agent returns the control session of a Slot.
func (s *Server) agent(slot string) (overlaystatus.Asked, error) {
	node, ok := s.cfg.Agents(slot)
	if !ok {
		return nil, status.Errorf(codes.FailedPrecondition,
			"AGENT_NOT_CONNECTED: the agent of %s has no control session with %s; `cadre instance describe %s` shows whether it is admitted", slot, s.cfg.Slot, slot)
	}
	return node, nil
}

// links returns the node's Links to one Peer or to all, filtered by the caller's rights.
func (a asked) links(ctx context.Context, peer string) ([]*overlayv1.Link, error) {
	if a.caller == nil {
		out, err := a.node.OverlayStatus(ctx, &controlv1.OverlayStatusRequest{Peer: peer})
		return out.GetLinks(), err
	}
	out, err := a.node.OverlayStatus(ctx, &controlv1.OverlayStatusRequest{})
	if err != nil {
		return nil, err
	}
	links, err := a.caller.visible(ctx, out.GetLinks())
	if err != nil {
		return nil, err
	}
	if peer == "" {
		return links, nil
	}
	names := make([]string, 0, len(links))
	for _, l := range links {
		if l.GetPeer() == peer {
			return []*overlayv1.Link{l}, nil
		}
		names = append(names, l.GetPeer())
	}
	return nil, overlaystatus.Unknown(peer, names)
}

// visible removes Links with groups that Consul does not let the caller read.
func (c *caller) visible(ctx context.Context, links []*overlayv1.Link) ([]*overlayv1.Link, error) {
	sees := groupReader{caller: c, readable: map[string]bool{peering.CoordinatorGroup: true}}
	out := make([]*overlayv1.Link, 0, len(links))
	for _, l := range links {
		may, err := sees.group(ctx, l.GetGroup())
		if err != nil {
			return nil, err
		}
		if may {
			out = append(out, l)
		}
	}
	return out, nil
}

// has rejects Peers that the caller may not know of. An agent itself rejects an unknown Peer.
func (a asked) has(ctx context.Context, peer string) error {
	if peer == "" {
		return status.Error(codes.InvalidArgument, "peer: is missing")
	}
	if a.caller == nil {
		return nil
	}
	_, err := a.links(ctx, peer)
	return err
}

// mayLoad asks Consul whether the caller may write the spec of each group whose members would carry
// load. If only coordinators would, the caller needs the right to use the switches.
func (c *caller) mayLoad(ctx context.Context, slots ...string) error {
	var keys []string
	for _, slot := range slots {
		if isCoordinator(slot) {
			continue
		}
		name, _, err := group.ParseSlot(slot)
		if err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		keys = append(keys, store.GroupSpecKey(name))
	}
	if len(keys) == 0 {
		keys = []string{store.OverrideKey(store.OverridePause, peering.CoordinatorGroup)}
	}
	for _, key := range keys {
		ok, err := c.server.cfg.Tokens.MayWrite(ctx, c.token, store.DefaultPrefix+key)
		if err != nil {
			return wire(err)
		}
		if !ok {
			return status.Errorf(codes.PermissionDenied, "a bench loads the network: it needs the right to write %s%s", store.DefaultPrefix, key)
		}
	}
	return nil
}

// allowBench instructs peer to take part in a bench that slot will begin. A node needs no
// instruction to take part for a coordinator.
func (s *Server) allowBench(ctx context.Context, slot, peer string) error {
	if isCoordinator(slot) {
		return nil
	}
	node := s.cfg.Overlay
	switch {
	case peer == s.cfg.Slot:
	case isCoordinator(peer):
		return status.Errorf(codes.FailedPrecondition,
			"OTHER_COORDINATOR: %s answered and cannot instruct %.100s to take part: name %s as the peer, or leave the slot out to begin here", s.cfg.Slot, peer, s.cfg.Slot)
	default:
		var err error
		if node, err = s.agent(peer); err != nil {
			return err
		}
	}
	_, err := node.OverlayAllowBench(ctx, &controlv1.OverlayAllowBenchRequest{Peer: slot})
	return err
}

func isCoordinator(slot string) bool {
	_, err := peering.CoordinatorOrdinal(slot)
	return err == nil
}
