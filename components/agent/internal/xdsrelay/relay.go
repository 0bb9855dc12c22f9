package xdsrelay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/agent/internal/consulproxy"
	"cadre.dev/overlay"
)

const (
	// maxConns bounds the open connections: an Envoy has one connection, and two for a moment; a
	// CVM has a few Envoys.
	maxConns = 64
	// tryFor bounds the opening at one coordinator: a stream in a Session that is up takes one
	// round trip. connectFor bounds it at all of them together: Envoy retries on its own, so it
	// need not wait longer here.
	tryFor     = time.Second
	connectFor = 3 * time.Second
	// lastFor is how long the second direction may last when the first is over: an HTTP/2 peer
	// sends little after the other side has ended.
	lastFor = time.Second
	// settleEvery, jittered upwards by half of it, is how often a connection checks whether its
	// coordinator is still the preferred one. Without the check all connections would stay where
	// they moved when their coordinators were replaced, and the last replaced coordinator would
	// have none.
	settleEvery = 10 * time.Minute
	// pauseAfter is the wait after a connection that could not be accepted.
	pauseAfter = 100 * time.Millisecond
)

var (
	errNone    = errors.New("no coordinator takes a stream for envoy")
	errSettled = errors.New("this slot's preferred coordinator is back")
)

// Config makes a Relay.
type Config struct {
	// Address is the loopback host:port for Envoys. Required, as is Listen.
	Address string
	// Listen opens the socket; a net.ListenConfig's does.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	// Log may be nil.
	Log *slog.Logger
}

// Relay is where Envoys find their configuration. Make it with [New]; safe for concurrent use.
type Relay struct {
	cfg  Config
	open atomic.Int64 // connections

	mu         sync.Mutex
	state      *state                   // guarded by mu; nil: closed
	failed     map[overlay.ID]time.Time // guarded by mu
	lastLogged string                   // guarded by mu: why there was no coordinator, as logged
}

// state is from one Open to the next, or to Shut.
type state struct {
	way  consulproxy.Way
	over chan struct{}
}

// New makes a Relay that ends each connection at once until [Relay.Open].
func New(cfg Config) *Relay {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Relay{cfg: cfg, failed: map[overlay.ID]time.Time{}}
}

// Open has connections carried to coordinators from now on; way.Dial opens a stream to the
// xDS service of one. Connections of an Open before end.
func (r *Relay) Open(way consulproxy.Way) { r.turn(&state{way: way, over: make(chan struct{})}) }

// Shut ends all connections, and rejects new ones.
func (r *Relay) Shut() { r.turn(nil) }

func (r *Relay) turn(next *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != nil {
		close(r.state.over)
	}
	r.state = next
}

func (r *Relay) now() *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Run serves until ctx ends. It returns an error when the socket cannot be opened or fails.
func (r *Relay) Run(ctx context.Context) error {
	l, err := r.cfg.Listen(ctx, "tcp", r.cfg.Address)
	if err != nil {
		return fmt.Errorf("listen for envoy: %w", err)
	}
	var conns sync.WaitGroup
	defer conns.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("serve envoy: %w", err)
		case err != nil:
			r.cfg.Log.Warn("a connection of envoy is not accepted", "error", err)
			pause(ctx)
			continue
		}
		now := r.now()
		if now == nil || r.open.Add(1) > maxConns {
			if now != nil {
				r.open.Add(-1)
				r.cfg.Log.Warn("a connection of envoy is one too many", "limit", maxConns)
			}
			_ = conn.Close()
			continue
		}
		conns.Go(func() {
			defer r.open.Add(-1)
			r.carry(ctx, conn, now)
		})
	}
}

func pause(ctx context.Context) {
	timer := time.NewTimer(pauseAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// carry has one connection, near, until it is over.
func (r *Relay) carry(ctx context.Context, near net.Conn, s *state) {
	defer near.Close() //nolint:errcheck // the client gets no other notice
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	id, far, err := r.connect(ctx, s.way)
	if err != nil {
		r.unreached(ctx, err)
		return
	}
	defer far.Close() //nolint:errcheck // as above
	r.cfg.Log.Info("an envoy's configuration comes from a coordinator", "coordinator", id.Slot)
	ending, why := copyBoth(ctx, near, far, func() bool { return r.first(s.way) == id })
	if ending == far {
		r.fail(id)
	}
	if ctx.Err() == nil {
		r.cfg.Log.Info("an envoy's connection to a coordinator is over", "coordinator", id.Slot, "by_coordinator", ending == far, "error", why)
	}
}

// connect opens a stream to the first coordinator that accepts a stream, in their order.
func (r *Relay) connect(ctx context.Context, way consulproxy.Way) (overlay.ID, net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectFor, fmt.Errorf("%w within %v", errNone, connectFor))
	defer cancel()
	errs := errNone
	for _, id := range r.order(way) {
		conn, err := try(ctx, way, id)
		if err == nil {
			r.mu.Lock()
			r.lastLogged = ""
			r.mu.Unlock()
			return id, conn, nil
		}
		if ctx.Err() != nil {
			return overlay.ID{}, nil, errors.Join(errs, err, context.Cause(ctx))
		}
		r.fail(id)
		errs = errors.Join(errs, fmt.Errorf("%s: %w", id.Slot, err))
	}
	return overlay.ID{}, nil, errs
}

func try(ctx context.Context, way consulproxy.Way, id overlay.ID) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	return way.Dial(ctx, id)
}

func (r *Relay) order(way consulproxy.Way) []overlay.ID {
	all := way.Coordinators()
	r.mu.Lock()
	defer r.mu.Unlock()
	named := map[overlay.ID]bool{}
	for _, c := range all {
		named[c.ID] = true
	}
	maps.DeleteFunc(r.failed, func(id overlay.ID, _ time.Time) bool { return !named[id] })
	return consulproxy.Order(way.Self, all, r.failed, time.Now())
}

// first is the coordinator that a connection would be carried to now.
func (r *Relay) first(way consulproxy.Way) overlay.ID {
	if all := r.order(way); len(all) > 0 {
		return all[0]
	}
	return overlay.ID{}
}

// fail has a coordinator be tried after the others for a while.
func (r *Relay) fail(id overlay.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[id] = time.Now()
}

// unreached logs once that there is no coordinator.
func (r *Relay) unreached(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := err.Error(); ctx.Err() == nil && text != r.lastLogged {
		r.lastLogged = text
		r.cfg.Log.Warn("no coordinator gives envoy its configuration", "error", err)
	}
}

// copyBoth copies each way until both have ended, lastFor after the first of them, when ctx ends,
// or when stays reports another preferred coordinator. Then it closes both. ending is the side that
// ended first, nil for neither.
func copyBoth(ctx context.Context, near, far net.Conn, stays func() bool) (ending net.Conn, why error) {
	type result struct {
		from net.Conn
		err  error
	}
	results := make(chan result, 2)
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		from, to := pair[0], pair[1]
		go func() {
			from, err := transfer(to, from)
			results <- result{from, err}
		}()
	}
	left := 2
	defer func() {
		_ = near.Close()
		_ = far.Close()
		for ; left > 0; left-- {
			<-results
		}
	}()
	settle := time.NewTimer(jittered())
	defer settle.Stop()
	var last <-chan time.Time
	for {
		select {
		case r := <-results:
			if left--; left == 0 {
				return ending, why
			}
			ending, why = r.from, r.err
			if why != nil {
				return ending, why
			}
			last = time.After(lastFor)
		case <-last:
			return ending, why
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-settle.C:
			if ending == nil && !stays() {
				return nil, errSettled
			}
			settle.Reset(jittered())
		}
	}
}

func jittered() time.Duration {
	return settleEvery + rand.N(settleEvery/2) //nolint:gosec // jitter is no secret
}

// transfer copies until from ends, and then ends to in that direction. It returns the side
// that failed; from, if it came to its end.
func transfer(to, from net.Conn) (net.Conn, error) {
	blame := &blaming{Conn: to}
	_, err := io.Copy(blame, from)
	switch {
	case blame.failed:
		return to, err
	case err != nil:
		return from, err
	}
	half, is := to.(interface{ CloseWrite() error })
	if !is {
		return from, io.EOF // the end of both
	}
	_ = half.CloseWrite()
	return from, nil
}

// blaming knows that writing failed.
type blaming struct {
	net.Conn

	failed bool
}

func (b *blaming) Write(p []byte) (int, error) {
	n, err := b.Conn.Write(p)
	b.failed = err != nil
	return n, err
}
