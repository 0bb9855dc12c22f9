package clienttest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// ProposeUndo implements ControlService: it goes back to the previously applied spec.
func (s *Server) ProposeUndo(ctx context.Context, r *apiv1.ProposeUndoRequest) (*apiv1.ProposeUndoResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ProposeUndo"); err != nil {
		return nil, err
	}
	g, err := s.groupLocked(r.GetGroup())
	if err != nil {
		return nil, err
	}
	if g.Before.Name == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "group %s has no revision before", r.GetGroup())
	}
	return &apiv1.ProposeUndoResponse{SpecJson: encode(g.Before), SpecIndex: g.Index, FromRevision: s.revision(g.Spec), ToRevision: s.revision(g.Before)}, nil
}
