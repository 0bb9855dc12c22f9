package leasing

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

var (
	errLost     = errors.New("lost")
	errReleased = errors.New("released")
	errDown     = errors.New("down")
)

const (
	ttl    = 10 * time.Second
	margin = 2 * time.Second
	// sure: 10s less a tenth, less the margin.
	sure = 7 * time.Second
)

// start keeps a session alive; renew returns the results of its renewals.
func start(t *testing.T, renew func(ctx context.Context) error) (*Session, *atomic.Int64) {
	t.Helper()
	destroyed := &atomic.Int64{}
	return Start(t.Context(), Config{
		TTL: ttl, Margin: margin, Clock: System{}, Lost: errLost, Released: errReleased, Renew: renew,
		Destroy: func(context.Context) error { destroyed.Add(1); return nil },
	}, time.Now()), destroyed
}

func wantCause(t *testing.T, h *Session, want error) {
	t.Helper()
	if cause := context.Cause(h.Context()); !errors.Is(cause, want) {
		t.Fatalf("cause %v, want %v", cause, want)
	}
	if left := h.Remaining(); left != 0 {
		t.Fatalf("remaining %v of an ended lease", left)
	}
}

func TestRenewalsKeepIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h, destroyed := start(t, func(context.Context) error { calls++; return nil })
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.Context().Err() != nil || h.Remaining() < sure-ttl/3 {
			t.Fatalf("%v, remaining %v", context.Cause(h.Context()), h.Remaining())
		}
		if err := h.Release(t.Context()); err != nil || destroyed.Load() != 1 {
			t.Fatalf("%v, destroyed %d times", err, destroyed.Load())
		}
		wantCause(t, h, errReleased)
		if want := int(time.Hour / (ttl / 3)); calls < want-2 || calls > want {
			t.Errorf("%d renewals in an hour, want about %d", calls, want)
		}
	})
}

func TestFailingRenewalsEndItAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		h, _ := start(t, func(context.Context) error { return errDown })
		<-h.Context().Done()
		if lasted := time.Since(started); lasted != sure {
			t.Errorf("lasted %v, want %v", lasted, sure)
		}
		wantCause(t, h, errLost)
		_ = h.Release(t.Context())
	})
}

func TestCTL02_HangingRenewalEndsItAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		h, _ := start(t, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		<-h.Context().Done()
		if lasted := time.Since(started); lasted != sure {
			t.Errorf("lasted %v, want %v", lasted, sure)
		}
		_ = h.Release(t.Context())
	})
}

func TestOneFailedRenewalIsMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h, _ := start(t, func(context.Context) error {
			if calls++; calls%2 == 1 {
				return errDown
			}
			return nil
		})
		time.Sleep(10 * time.Minute)
		if h.Context().Err() != nil {
			t.Fatalf("ended: %v", context.Cause(h.Context()))
		}
		_ = h.Release(t.Context())
	})
}

// TestSlowAnswersCountFromTheRequest: the server may have started the TTL when the request was
// sent.
func TestSlowAnswersCountFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h, _ := start(t, func(ctx context.Context) error {
			if calls++; calls > 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(3 * time.Second)
			return nil
		})
		started := time.Now()
		<-h.Context().Done()
		if lasted, want := time.Since(started), ttl/3+sure; lasted != want {
			t.Errorf("lasted %v, want %v", lasted, want)
		}
		_ = h.Release(t.Context())
	})
}

func TestCTL02_AnswerAfterTheDeadlineDoesNotReviveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := start(t, func(context.Context) error {
			time.Sleep(sure) // ignores the cancellation
			return nil
		})
		time.Sleep(time.Minute)
		wantCause(t, h, errLost)
		_ = h.Release(t.Context())
	})
}

func TestGoneSessionEndsItAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		h, _ := start(t, func(context.Context) error { return ErrGone })
		<-h.Context().Done()
		if lasted := time.Since(started); lasted != ttl/3 {
			t.Errorf("lasted %v, want %v", lasted, ttl/3)
		}
		wantCause(t, h, errLost)
		wantCause(t, h, ErrGone)
		_ = h.Release(t.Context())
	})
}

func TestReleaseDoesNotWaitForAHangingRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, destroyed := start(t, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		time.Sleep(ttl/3 + time.Millisecond)
		before := time.Now()
		if err := h.Release(t.Context()); err != nil || time.Since(before) != 0 || destroyed.Load() != 1 {
			t.Fatalf("%v after %v, destroyed %d times", err, time.Since(before), destroyed.Load())
		}
		if err := h.Release(t.Context()); err != nil || destroyed.Load() != 1 {
			t.Fatalf("again: %v, destroyed %d times", err, destroyed.Load())
		}
	})
}

func TestLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := start(t, func(context.Context) error { return nil })
		h.Lose(errDown)
		wantCause(t, h, errLost)
		wantCause(t, h, errDown)
		_ = h.Release(t.Context())
		wantCause(t, h, errDown)
	})
}
