package coordinator

import (
	"context"
	"fmt"
	"sync"
)

// tasks are goroutines with a common life: the first failure ends all of them.
type tasks struct {
	ctx    context.Context //nolint:containedctx // the tasks' own life, not a caller's
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

func newTasks(ctx context.Context) *tasks {
	ctx, cancel := context.WithCancelCause(ctx)
	return &tasks{ctx: ctx, cancel: cancel}
}

// run starts a task. A returned error ends the others; a return without an error does not.
func (t *tasks) run(name string, fn func(context.Context) error) {
	t.wg.Go(func() {
		if err := fn(t.ctx); err != nil && t.ctx.Err() == nil {
			t.cancel(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// stop ends all tasks and waits for them.
func (t *tasks) stop() {
	t.cancel(nil)
	t.wg.Wait()
}
