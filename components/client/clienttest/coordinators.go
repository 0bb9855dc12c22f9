package clienttest

import (
	"context"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// SetCoordinators sets the answers of CoordinatorsService: facts returns those of the coordinator
// with an instance id, and stepDown is called for each that steps down. Both run with no lock held.
func (s *Server) SetCoordinators(facts func(instance string) *apiv1.GetCoordinatorsResponse, stepDown func(instance, raftTo string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coordinators, s.stepDown = facts, stepDown
}

// RemovedVoters lists the coordinators whose voters were removed.
func (s *Server) RemovedVoters() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.removed...)
}

// instanceOf is the instance id that the caller selected at the gateway.
func instanceOf(ctx context.Context) string {
	from, _ := peer.FromContext(ctx)
	info, _ := from.AuthInfo.(credentials.TLSInfo)
	id, _, _ := strings.Cut(info.State.ServerName, "-")
	return id
}

// GetCoordinators implements CoordinatorsService.
func (s *Server) GetCoordinators(ctx context.Context, _ *apiv1.GetCoordinatorsRequest) (*apiv1.GetCoordinatorsResponse, error) {
	err := s.enter(ctx, "GetCoordinators")
	facts := s.coordinators
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	out := &apiv1.GetCoordinatorsResponse{Self: "coordinator-0", Leader: "coordinator-0"}
	if facts != nil {
		out, _ = proto.Clone(facts(instanceOf(ctx))).(*apiv1.GetCoordinatorsResponse)
	}
	return out, nil
}

// StepDown implements CoordinatorsService.
func (s *Server) StepDown(ctx context.Context, r *apiv1.StepDownRequest) (*apiv1.StepDownResponse, error) {
	err := s.enter(ctx, "StepDown")
	act := s.stepDown
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if act != nil {
		act(instanceOf(ctx), r.GetRaftTo())
	}
	return &apiv1.StepDownResponse{Lease: true, Raft: true}, nil
}

// RemoveVoter implements CoordinatorsService.
func (s *Server) RemoveVoter(ctx context.Context, r *apiv1.RemoveVoterRequest) (*apiv1.RemoveVoterResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "RemoveVoter"); err != nil {
		return nil, err
	}
	s.removed = append(s.removed, r.GetSlot())
	return &apiv1.RemoveVoterResponse{Removed: true}, nil
}
