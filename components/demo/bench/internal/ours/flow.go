package ours

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cadre.dev/overlay"
)

// peer is the one that the node knows.
func (r *running) peer() (overlay.ID, error) {
	all := r.node.Sessions()
	if len(all) != 1 {
		return overlay.ID{}, fmt.Errorf("%d peers, want one", len(all))
	}
	return all[0].Peer, nil
}

const (
	// allowing is how often allow gives a permission, which a flow spends.
	allowing = 10 * time.Millisecond
	// maxTries bounds the wait for one.
	maxTries = 100
)

// allow lets the Peer begin flows until ctx ends.
func (r *running) allow(ctx context.Context) error {
	id, err := r.peer()
	if err != nil {
		return err
	}
	if err := r.node.AllowBench(id, time.Minute); err != nil {
		return err
	}
	go func() {
		tick := time.NewTicker(allowing)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = r.node.AllowBench(id, time.Minute) // the Peer may be gone for a while
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// flow moves bytes to the Peer, which allows it, over one stream of the Session for a
// time or until the overlay's own bound. The stream is of the kind that carries
// applications' connections.
func (r *running) flow(ctx context.Context, lasting time.Duration) (Moved, error) {
	id, err := r.peer()
	if err != nil {
		return Moved{}, err
	}
	for tries := 1; ; tries++ {
		res, err := r.node.Bench(ctx, id, lasting, overlay.BenchSend)
		switch {
		case errors.Is(err, overlay.ErrBenchForbidden) && tries < maxTries:
		case err == nil && res.Moved:
			return Moved{}, errors.New("the path changed meanwhile")
		default:
			return Moved{Bytes: int64(res.Bytes), Took: res.Took}, err
		}
		// The flow before has spent the permission.
		select {
		case <-time.After(allowing):
		case <-ctx.Done():
			return Moved{}, context.Cause(ctx)
		}
	}
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
