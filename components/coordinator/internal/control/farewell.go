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

// Farewell gives up the lease of a Boot that ends. A Boot that does not hold the Slot has no lease;
// Farewell then succeeds.
type Farewell func(ctx context.Context, group, slot, bootID string) error

// farewellTime bounds the writes of a farewell; the shutdown of the coordinator waits for them.
const farewellTime = 3 * time.Second

// ServeFarewell sets f as the function for farewells. Call it before the first control session.
func (s *Service) ServeFarewell(f Farewell) { s.farewell = f }

// Farewell implements CoordinatorService. The farewell always concerns the calling Boot.
func (s *Service) Farewell(ctx context.Context, _ *controlv1.FarewellRequest) (*controlv1.FarewellResponse, error) {
	id, boot, ok := grpcconn.PeerFromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "PEER_NOT_ADMITTED: the call did not come over an overlay session")
	}
	if s.farewell == nil {
		return nil, status.Error(codes.Unimplemented, "farewells are not taken here")
	}
	// From here on the Boot does not count as alive, even if the write to the records fails.
	s.reports.Farewell(id.Slot, boot)
	// An ending agent waits for the answer for a second only. The lease is given up even after it
	// is gone, because the Boot's successor waits for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTime)
	defer cancel()
	if err := s.farewell(ctx, id.Group, id.Slot, boot); err != nil {
		s.log.Warn("lease of a boot that said farewell not given up", "slot", id.Slot, "boot", boot, "error", err)
		return nil, status.Error(codes.Unavailable, fmt.Sprintf("%s: the lease is not given up now", policy.CodeGateUnreadable))
	}
	return &controlv1.FarewellResponse{}, nil
}

// left returns the error for a request of a Boot after its farewell; nil: the Boot said no
// farewell.
func (s *Service) left(id overlay.ID, boot string, leaseEnded bool) error {
	if !leaseEnded && !s.reports.Left(id.Slot, boot) {
		return nil
	}
	return status.Error(codes.FailedPrecondition, fmt.Sprintf("%s: this boot said farewell", policy.CodeIncarnationStale))
}
