package machine

import (
	"context"
	"slices"
	"sync"
)

// road is the way from the guests to the registry. While it is slow, no guest gets an image, though
// the cloud has it: a guest of dstack pulls the images that its own disk lacks.
type road struct {
	mu      sync.Mutex // guards the following
	free    chan struct{}
	waiting []string
}

// Road is how the pulls of guests go.
type Road struct {
	Slow bool `json:"slow"`
	// Waiting names the CVMs whose engine waits for images, in order of arrival.
	Waiting []string `json:"waiting"`
}

// SetSlow makes the pulls of guests wait (true), or releases the waiting ones.
func (h *Hypervisor) SetSlow(slow bool) {
	h.road.mu.Lock()
	defer h.road.mu.Unlock()
	if slow == (h.road.free != nil) {
		return
	}
	if !slow {
		close(h.road.free)
		h.road.free = nil
		return
	}
	h.road.free = make(chan struct{})
}

// Road says how the pulls of guests go now.
func (h *Hypervisor) Road() Road {
	h.road.mu.Lock()
	defer h.road.mu.Unlock()
	return Road{Slow: h.road.free != nil, Waiting: append([]string{}, h.road.waiting...)}
}

// pass returns when the road is free, or with the end of ctx.
func (r *road) pass(ctx context.Context, cvm string) error {
	r.mu.Lock()
	free := r.free
	if free == nil {
		r.mu.Unlock()
		return nil
	}
	r.waiting = append(r.waiting, cvm)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		at := slices.Index(r.waiting, cvm)
		r.waiting = slices.Delete(r.waiting, at, at+1)
	}()
	select {
	case <-free:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
