package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// farewellLimit bounds a farewell: the container's end waits for it.
const farewellLimit = time.Second

// Farewell notifies every connected coordinator that this Boot ends, and returns when all have
// answered, at the latest after a second. A coordinator then releases the Boot's lease, so that the
// successor does not wait, and gives this Boot no further credentials: call Farewell after the
// workload has stopped, and before the sessions end. One coordinator's success is enough. An error
// means that none succeeded; the successor then waits until the lease expires.
func (h *Hub) Farewell(ctx context.Context) error {
	all := h.sessionsNow()
	if len(all) == 0 {
		return ErrNoSession
	}
	h.leaving.Store(true) // later rejections by coordinators are expected
	ctx, cancel := context.WithTimeout(ctx, farewellLimit)
	defer cancel()
	errs := make([]error, len(all))
	var asking sync.WaitGroup
	for i, s := range all {
		asking.Go(func() {
			if _, err := s.client.Farewell(ctx, &controlv1.FarewellRequest{}); err != nil {
				errs[i] = fmt.Errorf("farewell to %s: %w", s.peer.Slot, err)
			}
		})
	}
	asking.Wait()
	return anyDone(errs)
}
