package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	acquireBackoffMin = 100 * time.Millisecond
	acquireBackoffMax = 2 * time.Second
)

// AcquireBlocking waits until holder has the Lease. It watches the lock, so it takes over as soon
// as the lock is free. After an error of the store it retries with a growing, jittered pause.
// onError (may be nil) receives each error, and nil while another holder has the lock.
// AcquireBlocking returns when ctx ends. It returns at once on ErrDenied, ErrTermRegression and
// ErrTermExhausted, because a retry cannot succeed.
func AcquireBlocking(ctx context.Context, s Store, holder string, onError func(error)) (Lease, error) {
	backoff := acquireBackoffMin
	for {
		lease, err := acquireOrWait(ctx, s, holder, onError)
		if lease != nil {
			return lease, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		switch {
		case err == nil:
			backoff = acquireBackoffMin
			continue
		case errors.Is(err, ErrDenied), errors.Is(err, ErrTermRegression), errors.Is(err, ErrTermExhausted):
			return nil, err
		}
		if onError != nil {
			onError(err)
		}
		if err := pause(ctx, jitter(backoff)); err != nil {
			return nil, err
		}
		backoff = min(2*backoff, acquireBackoffMax)
	}
}

// jitter keeps coordinators from retrying in step.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2) //nolint:gosec // an attacker gains nothing from guessing it
}

// acquireOrWait returns nil, nil when the lock was held and may be free now.
func acquireOrWait(ctx context.Context, s Store, holder string, onTaken func(error)) (Lease, error) {
	// The index is read before the attempt, so that Watch sees a release between the two at once.
	_, index, err := s.List(ctx, LeaseKey)
	if err != nil {
		return nil, err
	}
	lease, err := s.Acquire(ctx, holder)
	if !errors.Is(err, ErrLeaseTaken) {
		return lease, err
	}
	if onTaken != nil {
		onTaken(nil)
	}
	_, err = s.Watch(ctx, LeaseKey, index)
	return nil, err
}
