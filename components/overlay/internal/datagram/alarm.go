package datagram

import (
	"context"
	"sync"
)

// alarm wakes whoever waits for QUIC, with a context, when there is something that
// QUIC knows nothing of. The zero alarm is ready; its methods may be called concurrently.
type alarm struct {
	mu  sync.Mutex
	ctx context.Context //nolint:containedctx // its end is the alarm
	end context.CancelFunc
}

// context ends when the alarm rings next. Who has it must look for what the alarm
// tells of before waiting with it.
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
