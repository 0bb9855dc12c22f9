package leasing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrGone is the error of Renew when the session certainly does not exist any more.
var ErrGone = errors.New("session is gone")

// Config of one held session.
type Config struct {
	// TTL is the minimum time that the store keeps the session without a renewal.
	TTL time.Duration
	// Margin is subtracted from the local deadline: the longest single call that the holder makes
	// after it checked its deadline.
	Margin time.Duration
	Clock  Clock
	// Renew renews the session once; ErrGone when it is gone.
	Renew func(ctx context.Context) error
	// Destroy ends the session.
	Destroy func(ctx context.Context) error
	// Lost and Released are the possible causes of the context's end.
	Lost, Released error
}

// Session is a session that is kept alive. Safe for concurrent use.
type Session struct {
	cfg    Config
	ctx    context.Context //nolint:containedctx // this context is the lease
	cancel context.CancelCauseFunc
	done   chan struct{}
	// release makes every later Release wait for the first.
	release sync.Once
	// released is the outcome of the first Release.
	released error

	mu        sync.Mutex
	deadline  time.Time
	stopTimer func() bool
}

// Start keeps the session alive from now on. sentAt is when the request that created the session
// was sent; the server starts the TTL later. ctx gives values only; the session outlives it until
// Release or loss.
func Start(ctx context.Context, cfg Config, sentAt time.Time) *Session {
	h := &Session{cfg: cfg, done: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.mu.Lock()
	h.deadline = sentAt.Add(h.sure())
	h.armLocked()
	h.mu.Unlock()
	go h.run() //nolint:contextcheck // it lives as long as h.ctx
	return h
}

// sure is how long a session certainly lives after a renewal was sent: the TTL, less a tenth for
// clocks that run at different rates, less the margin (threat model 9.4, rule 4).
func (h *Session) sure() time.Duration { return h.cfg.TTL - h.cfg.TTL/10 - h.cfg.Margin }

// Context dies when the session may have ended.
func (h *Session) Context() context.Context { return h.ctx }

// Remaining is how long the session certainly lives, at least 0. A process that was paused past the
// deadline learns it here even before its timers run.
func (h *Session) Remaining() time.Duration {
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

// Lose ends the lease because the store reported it as lost.
func (h *Session) Lose(why error) { h.cancel(fmt.Errorf("%w: %w", h.cfg.Lost, why)) }

// Release stops the renewals, waits for the loop and destroys the session. The lease is over for
// this process even if the session could not be destroyed: the session then ends by its TTL. Later
// calls return the first outcome.
func (h *Session) Release(ctx context.Context) error {
	h.release.Do(func() {
		h.cancel(h.cfg.Released)
		<-h.done
		h.released = h.cfg.Destroy(ctx)
	})
	return h.released
}

// run renews at a third of the TTL, and sooner after a failed attempt.
func (h *Session) run() {
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

// wait returns false when the lease ended before d passed.
func (h *Session) wait(d time.Duration) bool {
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

// extend moves the deadline after a renewal. A late renewal does not revive the lease: other
// goroutines may have acted on the deadline already.
func (h *Session) extend(sentAt time.Time) {
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

func (h *Session) armLocked() {
	if h.stopTimer != nil {
		h.stopTimer()
	}
	h.stopTimer = h.cfg.Clock.AfterFunc(h.deadline.Sub(h.cfg.Clock.Now()), func() { h.Remaining() })
}

func (h *Session) disarm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopTimer()
}

func (h *Session) expireLocked() {
	h.cancel(fmt.Errorf("%w: no renewal for %v", h.cfg.Lost, h.sure()))
}
