package catalog

import (
	"context"
	"time"
)

// Idle waits until nothing is due and nothing is being looked at.
func (w *Writer) Idle(ctx context.Context) error {
	for {
		w.mu.Lock()
		idle := len(w.due) == 0 && w.looking == 0
		w.mu.Unlock()
		if idle {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
