package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// renewLimit bounds a renewal with one coordinator.
const renewLimit = 8 * time.Second

// ErrNoSession reports that no coordinator is connected.
var ErrNoSession = errors.New("no coordinator is connected")

// Renew asks the connected coordinators for fresh credentials, one after the other from a random
// one on, until one grants them. Renew returns a rejection only if all reject: a single coordinator
// may be behind.
func (h *Hub) Renew(ctx context.Context, req *admissionv1.RenewRequest) (*admissionv1.Credentials, error) {
	all := h.sessionsNow()
	if len(all) == 0 {
		return nil, ErrNoSession
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var refused, failed error
	for _, s := range all {
		out, err := s.renew(ctx, req)
		if err == nil {
			return out, nil
		}
		err = fmt.Errorf("renew with %s: %w", s.peer.Slot, err)
		switch status.Code(err) {
		case codes.PermissionDenied, codes.FailedPrecondition, codes.Unimplemented:
			refused = err
		default:
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if refused != nil {
		return nil, refused
	}
	return nil, failed
}

// sessionsNow are the open sessions, in no order.
func (h *Hub) sessionsNow() []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.live))
}

func (s *session) renew(ctx context.Context, req *admissionv1.RenewRequest) (*admissionv1.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	out, err := admissionv1.NewCredentialServiceClient(s.conn).Renew(ctx, req, grpc.MaxCallRecvMsgSize(messageLimit))
	if err != nil {
		return nil, err
	}
	return out.GetCredentials(), nil
}
