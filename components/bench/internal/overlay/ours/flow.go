package ours

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cadre.dev/overlay"
)

// flow has the one Peer, to which this node is a coordinator, move bytes here over one
// stream of the Session, for a time or until the overlay's own bound. The stream is of
// the kind that carries applications' connections.
func (r *running) flow(ctx context.Context, lasting time.Duration) (Moved, error) {
	all := r.node.Sessions()
	if len(all) != 1 {
		return Moved{}, fmt.Errorf("%d peers, want one", len(all))
	}
	res, err := r.node.Bench(ctx, all[0].Peer, lasting, overlay.BenchReceive)
	if err == nil && res.Moved {
		err = errors.New("the path changed meanwhile")
	}
	return Moved{Bytes: int64(res.Bytes), Took: res.Took}, err
}

// bulk is one flow after the other, for each is bounded, until it is stopped.
type bulk struct {
	r *running

	mu     sync.Mutex
	cancel context.CancelFunc // guarded by mu; nil: nothing runs
	ended  chan error         // guarded by mu
}

// start begins bulk that ends with ctx, or with stop.
func (b *bulk) start(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		return errors.New("one at a time")
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	b.cancel, b.ended = cancel, ended
	go func() {
		var err error
		for err == nil {
			_, err = b.r.flow(ctx, overlay.MaxBenchTime)
		}
		if ctx.Err() != nil {
			err = nil
		}
		ended <- err
	}()
	return nil
}

// stop returns when nothing runs. An error: it had ended before.
func (b *bulk) stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel == nil {
		return nil
	}
	b.cancel()
	b.cancel = nil
	return <-b.ended
}
