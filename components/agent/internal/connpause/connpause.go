package connpause

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// maxPaused bounds the connections that wait, and maxOpen all of one Pauser: each carried
	// one costs this process two descriptors and a pipe for each direction in use.
	maxPaused = 1000
	maxOpen   = 4096
	// dialFor bounds one try to reach the target, and retryEvery paces them after a pause.
	dialFor    = 5 * time.Second
	retryEvery = 20 * time.Millisecond
	// maxDials bounds the concurrent dials: a target's queue usually holds 128 connections, and the
	// kernel retries a dropped connection only after a whole second.
	maxDials = 64
	// acceptAgain is how long a listener rests that had no descriptor left.
	acceptAgain = 50 * time.Millisecond
)

// Config makes a Pauser. All fields are required.
type Config struct {
	// Route is for the log.
	Route string
	// Address is host:port for the applications, Target where their connections go.
	Address, Target string
	// Listen opens the socket, like net.ListenConfig's. The listener must accept TCP.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Log    *slog.Logger
}

// Counters count since the Pauser was made, except the fields that say now.
type Counters struct {
	// OpenNow counts all connections, PausedNow those of them that wait.
	OpenNow, PausedNow int
	// Paused counts the connections that waited. Of them Resumed were carried on when the pause was
	// over, Expired when its limit ended first, and Left were closed by their clients.
	Paused, Resumed, Expired, Left uint64
	// Refused found no place: too many waited, or were open.
	Refused uint64
	// Failed reached no target.
	Failed uint64
}

// Pauser forwards one address. Make it with [New]; safe for concurrent use.
type Pauser struct {
	cfg   Config
	log   *slog.Logger
	dials chan struct{} // capacity maxDials

	mu     sync.Mutex
	pause  *pause                    // guarded by mu; nil: connections are carried at once
	conns  map[*net.TCPConn]struct{} // guarded by mu; all of clients
	counts Counters                  // guarded by mu
}

// pause is the pause in progress. Its fields are guarded by the Pauser's mu.
type pause struct {
	until time.Time
	timer *time.Timer
	// waiting are the connections whose goroutines are in wait.
	waiting map[*net.TCPConn]struct{}
	ended   bool
	expired bool
}

// New makes a Pauser that carries connections once it runs.
func New(cfg Config) *Pauser {
	return &Pauser{cfg: cfg, log: cfg.Log, dials: make(chan struct{}, maxDials), conns: map[*net.TCPConn]struct{}{}}
}

// Pause makes new connections wait until [Pauser.Resume], or for limit. A pause in progress gets
// the new limit. Established connections are left alone.
func (g *Pauser) Pause(limit time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	until := time.Now().Add(limit)
	if h := g.pause; h != nil {
		h.until = until
		h.timer.Reset(limit)
		return
	}
	h := &pause{until: until, waiting: map[*net.TCPConn]struct{}{}}
	h.timer = time.AfterFunc(limit, func() { g.expire(h) })
	g.pause = h
}

// Resume carries the waiting connections on and returns their number. Without a pause it does
// nothing.
func (g *Pauser) Resume() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pause == nil {
		return 0
	}
	return g.endLocked(g.pause, false)
}

func (g *Pauser) expire(h *pause) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pause != h || time.Now().Before(h.until) {
		return // released, or it got more time
	}
	if n := g.endLocked(h, true); n > 0 {
		g.log.Warn("a pause ended by its limit, connections resume", "route", g.cfg.Route, "connections", n)
	}
}

func (g *Pauser) endLocked(h *pause, expired bool) int {
	h.timer.Stop()
	h.ended, h.expired = true, expired
	g.pause = nil
	for c := range h.waiting {
		wake(c)
	}
	return len(h.waiting)
}

// Counters are as they are now.
func (g *Pauser) Counters() Counters {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.counts
	out.OpenNow = len(g.conns)
	return out
}

// Run serves until ctx ends, and then closes all connections. It returns an error when the socket
// cannot be opened or fails.
func (g *Pauser) Run(ctx context.Context) error {
	l, err := g.cfg.Listen(ctx, "tcp", g.cfg.Address)
	if err != nil {
		return fmt.Errorf("listen for connections to route %s: %w", g.cfg.Route, err)
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		_ = l.Close()
		g.closeAll()
	})
	defer stop()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept connections to route %s: %w", g.cfg.Route, err)
			}
			// The error is of one connection, or of a missing descriptor.
			g.log.Warn("a route's connection is not accepted", "route", g.cfg.Route, "error", err)
			rest(ctx, acceptAgain)
			continue
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			_ = c.Close()
			return fmt.Errorf("accept connections to route %s: got a %T, want TCP", g.cfg.Route, c)
		}
		h, ok := g.enter(ctx, tcp)
		if !ok {
			reset(tcp)
			continue
		}
		parts.Go(func() {
			defer g.leave(tcp)
			g.serve(ctx, tcp, h)
		})
	}
}

// enter registers a new connection, with the pause if there is one.
func (g *Pauser) enter(ctx context.Context, c *net.TCPConn) (*pause, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ctx.Err() != nil {
		return nil, false // closeAll is over, or will not see it
	}
	if len(g.conns) >= maxOpen {
		g.counts.Refused++
		return nil, false
	}
	h := g.pause
	if h != nil && !g.parkLocked(c, h) {
		return nil, false
	}
	g.conns[c] = struct{}{}
	return h, true
}

func (g *Pauser) parkLocked(c *net.TCPConn, h *pause) bool {
	if g.counts.PausedNow >= maxPaused {
		g.counts.Refused++
		return false
	}
	h.waiting[c] = struct{}{}
	g.counts.PausedNow++
	g.counts.Paused++
	return true
}

func (g *Pauser) leave(c *net.TCPConn) {
	_ = c.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

func (g *Pauser) closeAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pause != nil {
		g.endLocked(g.pause, false)
	}
	for c := range g.conns {
		_ = c.Close()
	}
}

// serve has one connection wait while it must, reaches its target, and carries it.
func (g *Pauser) serve(ctx context.Context, c *net.TCPConn, h *pause) {
	waits := h != nil
	for {
		if waits && !g.wait(c, h) {
			return
		}
		target, err := g.dial(ctx)
		if err == nil {
			carry(ctx, c, target)
			return
		}
		var again bool
		if h, waits, again = g.after(c, h); !again || ctx.Err() != nil {
			g.log.Debug("a route's target is not reached", "route", g.cfg.Route, "error", err)
			reset(c)
			return
		}
		if !waits {
			rest(ctx, retryEvery)
		}
	}
}

// wait returns when c's pause is over, and reports whether its client is still there.
func (g *Pauser) wait(c *net.TCPConn, h *pause) (there bool) {
	gone := clientGone(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(h.waiting, c)
	g.counts.PausedNow--
	switch {
	case gone:
		g.counts.Left++
		return false
	case h.expired:
		g.counts.Expired++
	default:
		g.counts.Resumed++
	}
	return c.SetReadDeadline(time.Time{}) == nil
}

// after decides on a connection whose target was not reached: while there is a pause it
// waits, also if it came before; until its own pause's limit it is tried again; else it gets
// the error. Nothing of it was read yet.
func (g *Pauser) after(c *net.TCPConn, h *pause) (next *pause, waits, again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.pause != nil && g.parkLocked(c, g.pause):
		return g.pause, true, true
	case h != nil && time.Now().Before(h.until):
		return h, false, true
	}
	g.counts.Failed++
	return h, false, false
}

func (g *Pauser) dial(ctx context.Context) (*net.TCPConn, error) {
	select {
	case g.dials <- struct{}{}:
		defer func() { <-g.dials }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	dialer := net.Dialer{Timeout: dialFor}
	c, err := dialer.DialContext(ctx, "tcp", g.cfg.Target)
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("dial %s: got a %T, want TCP", g.cfg.Target, c)
	}
	return tcp, nil
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
