package datagram

import (
	"context"
	"sync"
)

// alarm wakes a goroutine that waits for QUIC with a context, when there is work that
// QUIC does not know of. The zero alarm is ready; its methods may be called concurrently.
type alarm struct {
	mu  sync.Mutex
	ctx context.Context //nolint:containedctx // its end is the alarm
	end context.CancelFunc
}

// context ends when the alarm rings next. A caller must check for work after it got the
// context and before it waits with it.
func (a *alarm) context() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx == nil {
		a.ctx, a.end = context.WithCancel(context.Background())
	}
	return a.ctx
}

func (a *alarm) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx != nil {
		a.end()
		a.ctx = nil
	}
}
