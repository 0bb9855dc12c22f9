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

// Farewell tells every connected coordinator that this Boot ends, and returns when all
// have answered, at the latest after a second. The Boot's lease is given up then, so that
// its successor waits for nothing, and this Boot is given nothing any more: call it when
// the workload is stopped, and before the sessions end. One coordinator that took it is
// enough; an error says that none did, and the successor waits for the lease's time.
func (h *Hub) Farewell(ctx context.Context) error {
	all := h.sessionsNow()
	if len(all) == 0 {
		return ErrNoSession
	}
	h.leaving.Store(true) // what coordinators refuse from here on is no news
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
