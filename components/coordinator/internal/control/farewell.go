package control

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Farewell gives up the lease of a Boot that ends. One that is not the Slot has none,
// which is no error.
type Farewell func(ctx context.Context, group, slot, bootID string) error

// farewellTime bounds what a farewell writes; the coordinator's own end waits for it.
const farewellTime = 3 * time.Second

// ServeFarewell has f called when a Boot says farewell. Call it before the first control
// session.
func (s *Service) ServeFarewell(f Farewell) { s.farewell = f }

// Farewell implements CoordinatorService. A Boot speaks for itself alone.
func (s *Service) Farewell(ctx context.Context, _ *controlv1.FarewellRequest) (*controlv1.FarewellResponse, error) {
	id, boot, ok := grpcconn.PeerFromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "PEER_NOT_ADMITTED: the call did not come over an overlay session")
	}
	if s.farewell == nil {
		return nil, status.Error(codes.Unimplemented, "farewells are not taken here")
	}
	// From here on nobody counts it as alive, whatever becomes of the records.
	s.reports.Farewell(id.Slot, boot)
	// Whoever ends waits for an answer for a second and is gone: its successor waits for the
	// lease all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTime)
	defer cancel()
	if err := s.farewell(ctx, id.Group, id.Slot, boot); err != nil {
		s.log.Warn("lease of a boot that said farewell not given up", "slot", id.Slot, "boot", boot, "error", err)
		return nil, status.Error(codes.Unavailable, fmt.Sprintf("%s: the lease is not given up now", policy.CodeGateUnreadable))
	}
	return &controlv1.FarewellResponse{}, nil
}

// left is the answer to a Boot that asks for something after its farewell; nil: it did not
// say any.
func (s *Service) left(id overlay.ID, boot string, leaseEnded bool) error {
	if !leaseEnded && !s.reports.Left(id.Slot, boot) {
		return nil
	}
	return status.Error(codes.FailedPrecondition, fmt.Sprintf("%s: this boot said farewell", policy.CodeIncarnationStale))
}
