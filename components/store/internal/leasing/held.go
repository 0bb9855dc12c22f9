package leasing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrGone is what Renew returns when the session certainly does not exist any more.
var ErrGone = errors.New("session is gone")

// Config of one held session.
type Config struct {
	// TTL is the lower bound that the store keeps the session without a renewal.
	TTL time.Duration
	// Margin is taken off the local deadline: the longest single call that the
	// holder makes after it looked at its deadline.
	Margin time.Duration
	Clock  Clock
	// Renew prolongs the session once; ErrGone when it is gone.
	Renew func(ctx context.Context) error
	// Destroy ends the session.
	Destroy func(ctx context.Context) error
	// Lost and Released are what the cause of the context Is.
	Lost, Released error
}

// Held is a session that is being kept alive. Safe for concurrent use.
type Held struct {
	cfg    Config
	ctx    context.Context //nolint:containedctx // this context is what a lease is
	cancel context.CancelCauseFunc
	done   chan struct{}
	// release makes the second and later Release wait for the first.
	release sync.Once
	// released is the outcome of the first Release.
	released error

	mu        sync.Mutex
	deadline  time.Time
	stopTimer func() bool
}

// Start keeps the session alive from now on. sentAt is when the request that
// created the session was sent: the TTL counts at the server from a later
// moment. ctx gives values only; the session outlives it until Release or loss.
func Start(ctx context.Context, cfg Config, sentAt time.Time) *Held {
	h := &Held{cfg: cfg, done: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.mu.Lock()
	h.deadline = sentAt.Add(h.sure())
	h.armLocked()
	h.mu.Unlock()
	go h.run() //nolint:contextcheck // it lives as long as h.ctx
	return h
}

// sure is how long a session is certain to live after a renewal was sent: the
// TTL, less a tenth for clocks that run at different rates, less the margin
// (threat model 9.4, rule 4).
func (h *Held) sure() time.Duration { return h.cfg.TTL - h.cfg.TTL/10 - h.cfg.Margin }

// Context dies when the session is not sure any more.
func (h *Held) Context() context.Context { return h.ctx }

// Remaining is how long the session is sure to live; 0 when it is not. A
// process that was paused past the deadline learns it here even before its
// timers run.
func (h *Held) Remaining() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.deadline.Sub(h.cfg.Clock.Now())
	if left <= 0 {
		h.expireLocked()
		return 0
	}
	if h.ctx.Err() != nil {
		return 0
	}
	return left
}

// Lose ends the lease because the store said that it is lost.
func (h *Held) Lose(why error) { h.cancel(fmt.Errorf("%w: %w", h.cfg.Lost, why)) }

// Release stops the renewals, waits for the loop and destroys the session. The
// lease is over for this process even when the error says that the session
// could not be destroyed: it then ends by its TTL. Later calls repeat the
// first outcome.
func (h *Held) Release(ctx context.Context) error {
	h.release.Do(func() {
		h.cancel(h.cfg.Released)
		<-h.done
		h.released = h.cfg.Destroy(ctx)
	})
	return h.released
}

// run renews at a third of the TTL, sooner after an attempt that did not work.
func (h *Held) run() {
	defer close(h.done)
	defer h.disarm()
	pause := h.cfg.TTL / 3
	for h.wait(pause) {
		sentAt := h.cfg.Clock.Now()
		call, cancel := context.WithTimeout(h.ctx, h.cfg.TTL/3)
		err := h.cfg.Renew(call)
		cancel()
		switch {
		case err == nil:
			h.extend(sentAt)
			pause = h.cfg.TTL / 3
		case errors.Is(err, ErrGone):
			h.Lose(err)
			return
		default:
			pause = h.cfg.TTL / 20
		}
	}
}

// wait reports false when the lease ended before d passed.
func (h *Held) wait(d time.Duration) bool {
	fired := make(chan struct{})
	stop := h.cfg.Clock.AfterFunc(d, func() { close(fired) })
	defer stop()
	select {
	case <-fired:
		return h.ctx.Err() == nil
	case <-h.ctx.Done():
		return false
	}
}

// extend moves the deadline after a renewal. One that came back too late does
// not revive the lease: work may have been given up on the deadline already.
func (h *Held) extend(sentAt time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.cfg.Clock.Now().Before(h.deadline) {
		h.expireLocked()
		return
	}
	if next := sentAt.Add(h.sure()); next.After(h.deadline) {
		h.deadline = next
		h.armLocked()
	}
}

func (h *Held) armLocked() {
	if h.stopTimer != nil {
		h.stopTimer()
	}
	h.stopTimer = h.cfg.Clock.AfterFunc(h.deadline.Sub(h.cfg.Clock.Now()), func() { h.Remaining() })
}

func (h *Held) disarm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopTimer()
}

func (h *Held) expireLocked() {
	h.cancel(fmt.Errorf("%w: no renewal for %v", h.cfg.Lost, h.sure()))
}
