package clienttest

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// SetRecovery sets the answer of Recover before a raise.
func (s *Server) SetRecovery(r *apiv1.RecoverResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recovery = r
}

// Recover implements RecoveryService.
func (s *Server) Recover(ctx context.Context, r *apiv1.RecoverRequest) (*apiv1.RecoverResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "Recover"); err != nil {
		return nil, err
	}
	out := &apiv1.RecoverResponse{}
	if s.recovery != nil {
		out = proto.Clone(s.recovery).(*apiv1.RecoverResponse)
	}
	switch {
	case r.GetDryRun():
	case strings.TrimSpace(r.GetReason()) == "":
		return nil, status.Error(codes.InvalidArgument, "reason: is missing: the record of the action needs it")
	default:
		out.Raised = out.GetHalted() != ""
	}
	return out, nil
}
