package clienttest

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	apiv1 "cadre.dev/proto/cadre/api/v1"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

// Overlay has the answers of a Server's nodes.
type Overlay struct {
	// Links by Slot; "coordinator-0" answers for "".
	Links map[string][]*overlayv1.Link
	Ping  *overlayv1.Ping
	// Bench is returned with the requested direction.
	Bench *overlayv1.Bench
}

// SetOverlay replaces the answers of the nodes.
func (s *Server) SetOverlay(m Overlay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overlay = m
}

// linksLocked returns the links of a Slot; "" means the coordinator that answers.
func (s *Server) linksLocked(slot, peer string) (string, []*overlayv1.Link, error) {
	if slot == "" {
		slot = "coordinator-0"
	}
	links, ok := s.overlay.Links[slot]
	if !ok {
		return "", nil, status.Errorf(codes.NotFound, "no such slot: %s", slot)
	}
	if peer == "" {
		return slot, links, nil
	}
	i := slices.IndexFunc(links, func(l *overlayv1.Link) bool { return l.GetPeer() == peer })
	if i < 0 {
		return "", nil, status.Errorf(codes.NotFound, "PEER_UNKNOWN: no peer %q", peer)
	}
	return slot, links[i : i+1], nil
}

// GetOverlay implements ClusterService.
func (s *Server) GetOverlay(ctx context.Context, r *apiv1.GetOverlayRequest) (*apiv1.GetOverlayResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "GetOverlay"); err != nil {
		return nil, err
	}
	slot, links, err := s.linksLocked(r.GetSlot(), r.GetPeer())
	return &apiv1.GetOverlayResponse{Slot: slot, Links: links}, err
}

// PingPeer implements ClusterService.
func (s *Server) PingPeer(ctx context.Context, r *apiv1.PingPeerRequest) (*apiv1.PingPeerResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "PingPeer"); err != nil {
		return nil, err
	}
	slot, _, err := s.linksLocked(r.GetSlot(), r.GetPeer())
	return &apiv1.PingPeerResponse{Slot: slot, Ping: s.overlay.Ping}, err
}

// BenchPeer implements ClusterService.
func (s *Server) BenchPeer(ctx context.Context, r *apiv1.BenchPeerRequest) (*apiv1.BenchPeerResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "BenchPeer"); err != nil {
		return nil, err
	}
	slot, _, err := s.linksLocked(r.GetSlot(), r.GetPeer())
	out := &apiv1.BenchPeerResponse{Slot: slot}
	if s.overlay.Bench != nil {
		out.Bench = proto.CloneOf(s.overlay.Bench)
		out.Bench.Direction = r.GetDirection()
		out.Bench.Took = r.GetDuration()
	}
	return out, err
}
