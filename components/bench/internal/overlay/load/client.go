package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Dialer opens one connection in a mode, and informs the far end of the mode by its own means.
type Dialer func(ctx context.Context, to string, mode Mode) (net.Conn, error)

// Announce says the mode with the first byte; on error it closes conn.
func Announce(conn net.Conn, mode Mode) (net.Conn, error) {
	if _, err := conn.Write([]byte{byte(mode)}); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("say what the connection is for: %w", err)
	}
	return conn, nil
}

// bulk is traffic under way.
type bulk struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	failed error // guarded by mu
}

// startBulk opens streams connections and writes to each until stop. It returns
// once all are open.
func startBulk(ctx context.Context, dial Dialer, to string, streams int) (*bulk, error) {
	ctx, cancel := context.WithCancel(ctx)
	b := &bulk{cancel: cancel}
	for range streams {
		conn, err := dial(ctx, to, Bulk)
		if err != nil {
			_ = b.stop()
			return nil, fmt.Errorf("open bulk connection: %w", err)
		}
		b.wg.Go(func() {
			defer discard(conn)
			wake := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })
			defer wake()
			buf := make([]byte, chunk)
			for ctx.Err() == nil {
				if _, err := conn.Write(buf); err != nil && ctx.Err() == nil {
					b.fail(fmt.Errorf("bulk write: %w", err))
					return
				}
			}
		})
	}
	return b, nil
}

// discard closes conn and drops its queued bytes, which would only disturb the next measurement.
func discard(conn net.Conn) {
	beneath := conn
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok {
		beneath = over.NetConn()
	}
	if tcp, ok := beneath.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
		return
	}
	_ = conn.Close()
}

func (b *bulk) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = errors.Join(b.failed, err)
}

// stop ends the traffic and returns its errors.
func (b *bulk) stop() error {
	b.cancel()
	b.wg.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// PingSize is the size of a ping and of its answer.
const PingSize = 64

// Latency sums up round trips.
type Latency struct {
	Count  int           `json:"count"`
	Median time.Duration `json:"median"`
	P99    time.Duration `json:"p99"`
}

// pings sends one ping after the other for a time. One round trip is made before
// the clock starts.
func pings(ctx context.Context, dial Dialer, to string, lasting time.Duration) (Latency, error) {
	conn, err := dial(ctx, to, Ping)
	if err != nil {
		return Latency{}, fmt.Errorf("open ping connection: %w", err)
	}
	defer func() { _ = conn.Close() }()
	wake := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer wake()
	var trips []time.Duration
	buf := make([]byte, PingSize)
	if err := exchange(conn, buf); err != nil {
		return Latency{}, err
	}
	end := time.Now().Add(lasting)
	for begin := time.Now(); begin.Before(end); {
		if err := exchange(conn, buf); err != nil {
			return Latency{}, err
		}
		now := time.Now()
		trips = append(trips, now.Sub(begin))
		begin = now
	}
	return Summarize(trips), nil
}

// PingOnce connects and waits for the answer to one ping.
func PingOnce(ctx context.Context, dial Dialer, to string) error {
	conn, err := dial(ctx, to, Ping)
	if err != nil {
		return fmt.Errorf("open ping connection: %w", err)
	}
	defer func() { _ = conn.Close() }()
	wake := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer wake()
	return exchange(conn, make([]byte, PingSize))
}

func exchange(conn net.Conn, buf []byte) error {
	if _, err := conn.Write(buf); err != nil {
		return fmt.Errorf("send ping: %w", err)
	}
	if _, err := io.ReadFull(conn, buf); err != nil {
		return fmt.Errorf("receive ping: %w", err)
	}
	return nil
}

// Summarize sorts trips in place.
func Summarize(trips []time.Duration) Latency {
	if len(trips) == 0 {
		return Latency{}
	}
	slices.Sort(trips)
	return Latency{Count: len(trips), Median: Percentile(trips, 50), P99: Percentile(trips, 99)}
}

// Percentile of sorted values by nearest rank; values must not be empty and p
// lies in 1..100.
func Percentile(sorted []time.Duration, p int) time.Duration {
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}
