package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// beat sends a ping every few milliseconds whether or not the last was answered,
// as an application's own health check would, and dials again as soon as its
// connection fails. It keeps when each answer came.
type beat struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	answers []time.Time // guarded by mu
}

// Silence is a time without any answer.
type Silence struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Length of the silence.
func (s Silence) Length() time.Duration { return s.To.Sub(s.From) }

// startBeat returns after the first answer.
func startBeat(ctx context.Context, dial Dialer, to string, every time.Duration) (*beat, error) {
	ctx, cancel := context.WithCancel(ctx)
	b := &beat{cancel: cancel}
	first := make(chan struct{})
	b.wg.Go(func() {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for ctx.Err() == nil {
			try, end := context.WithTimeout(ctx, dialPatience)
			conn, err := dial(try, to, Ping)
			end()
			if err == nil {
				b.run(ctx, conn, ticks.C, first)
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
			}
		}
	})
	select {
	case <-first:
		return b, nil
	case <-ctx.Done():
		b.wg.Wait()
		return nil, fmt.Errorf("start beat: %w", context.Cause(ctx))
	}
}

// dialPatience is how long one try to connect may take: an attempt into the void
// must not hide that the way is open again.
const dialPatience = 250 * time.Millisecond

// run beats on one connection until it fails or ctx ends.
func (b *beat) run(ctx context.Context, conn net.Conn, ticks <-chan time.Time, first chan struct{}) {
	failed := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(failed)
		buf := make([]byte, PingSize)
		for {
			if _, err := io.ReadFull(conn, buf); err != nil {
				return
			}
			b.mu.Lock()
			b.answers = append(b.answers, time.Now())
			if len(b.answers) == 1 {
				close(first)
			}
			b.mu.Unlock()
		}
	})
	defer wg.Wait()
	defer func() { _ = conn.Close() }()
	buf := make([]byte, PingSize)
	for {
		select {
		case <-ticks:
			// A peer that reads nothing for long fills the buffers: not a reason
			// to wait, for the next tick shall find out about the connection.
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := conn.Write(buf); err != nil {
				return
			}
		case <-failed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// stop ends the beat and returns its longest silence, the one up to now included: a silence that
// has not ended must not pass for none.
func (b *beat) stop() Silence {
	now := time.Now()
	b.cancel()
	b.wg.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return LongestSilence(append(b.answers, now))
}

// LongestSilence of a sequence of moments; zero for fewer than two.
func LongestSilence(moments []time.Time) Silence {
	var longest Silence
	for i, to := range moments {
		if i == 0 {
			continue
		}
		if s := (Silence{From: moments[i-1], To: to}); s.Length() > longest.Length() {
			longest = s
		}
	}
	return longest
}
