package clienttest

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	apiv1 "cadre.dev/proto/cadre/api/v1"
	meshv1 "cadre.dev/proto/cadre/mesh/v1"
)

// Mesh is what the nodes of a Server answer.
type Mesh struct {
	// Links by the Slot that has them; "coordinator-0" answers for "".
	Links map[string][]*meshv1.Link
	Ping  *meshv1.Ping
	// Bench is answered with the direction asked for.
	Bench *meshv1.Bench
}

// SetMesh replaces what the nodes answer.
func (s *Server) SetMesh(m Mesh) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mesh = m
}

// linksLocked are those of a Slot, or of "" for the coordinator that answers.
func (s *Server) linksLocked(slot, peer string) (string, []*meshv1.Link, error) {
	if slot == "" {
		slot = "coordinator-0"
	}
	links, ok := s.mesh.Links[slot]
	if !ok {
		return "", nil, status.Errorf(codes.NotFound, "no such slot: %s", slot)
	}
	if peer == "" {
		return slot, links, nil
	}
	i := slices.IndexFunc(links, func(l *meshv1.Link) bool { return l.GetPeer() == peer })
	if i < 0 {
		return "", nil, status.Errorf(codes.NotFound, "PEER_UNKNOWN: no peer %q", peer)
	}
	return slot, links[i : i+1], nil
}

// GetMesh implements ClusterService.
func (s *Server) GetMesh(ctx context.Context, r *apiv1.GetMeshRequest) (*apiv1.GetMeshResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "GetMesh"); err != nil {
		return nil, err
	}
	slot, links, err := s.linksLocked(r.GetSlot(), r.GetPeer())
	return &apiv1.GetMeshResponse{Slot: slot, Links: links}, err
}

// PingPeer implements ClusterService.
func (s *Server) PingPeer(ctx context.Context, r *apiv1.PingPeerRequest) (*apiv1.PingPeerResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "PingPeer"); err != nil {
		return nil, err
	}
	slot, _, err := s.linksLocked(r.GetSlot(), r.GetPeer())
	return &apiv1.PingPeerResponse{Slot: slot, Ping: s.mesh.Ping}, err
}

// BenchPeer implements ClusterService.
func (s *Server) BenchPeer(ctx context.Context, r *apiv1.BenchPeerRequest) (*apiv1.BenchPeerResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "BenchPeer"); err != nil {
		return nil, err
	}
	slot, _, err := s.linksLocked(r.GetSlot(), r.GetPeer())
	out := &apiv1.BenchPeerResponse{Slot: slot}
	if s.mesh.Bench != nil {
		out.Bench = proto.CloneOf(s.mesh.Bench)
		out.Bench.Direction = r.GetDirection()
		out.Bench.Took = r.GetDuration()
	}
	return out, err
}
