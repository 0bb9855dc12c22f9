package punch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

const (
	// connectTime bounds one Connect.
	connectTime = 6 * time.Second
	// maxOpen bounds connections that stand and are not chosen yet.
	maxOpen = 2 * MaxCandidates
	// pickTime is how long the pick byte may take to leave.
	pickTime = time.Second
	// usedGap is how long a pair of addresses is left alone that turned out to
	// be in use, most often by a connection that is just coming in.
	usedGap = 50 * time.Millisecond
)

// race is one Connect: all ways to the Peer at once, of which one wins.
type race struct {
	local   *Local
	targets []Candidate
	timing  timing
	// up gives connections that may be chosen, one after the other.
	up chan *Conn
	wg sync.WaitGroup

	mu   sync.Mutex
	open map[*Conn]struct{} // stand and are not chosen; nil once over; guarded by mu
}

func newRace(l *Local, targets []Candidate, t timing) *race {
	return &race{local: l, targets: targets, timing: t, up: make(chan *Conn), open: make(map[*Conn]struct{})}
}

// run returns the connection that both ends are agreed on, with everything else
// closed and no goroutine left.
func (r *race) run(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTime, ErrNoConnection)
	defer cancel()
	for _, ln := range r.local.listeners {
		_ = ln.SetDeadline(time.Time{})
		r.wg.Go(func() { r.accept(ctx, ln) })
	}
	for _, c := range r.targets {
		r.wg.Go(func() { r.dial(ctx, c) })
	}
	conn, err := r.choose(ctx)
	cancel()
	for _, ln := range r.local.listeners {
		_ = ln.SetDeadline(time.Unix(1, 0))
	}
	r.mu.Lock()
	losers := r.open
	r.open = nil
	r.mu.Unlock()
	for c := range losers {
		if c != conn {
			c.reset()
		}
	}
	r.wg.Wait()
	if conn != nil {
		_ = conn.tcp.SetLinger(-1)
	}
	return conn, err
}

// choose takes the first connection that may be chosen. On the controlled side
// that has been decided already, except that a connection to the Peer's listener
// yields to a pick that comes soon.
func (r *race) choose(ctx context.Context) (*Conn, error) {
	var fallback *Conn
	var grace <-chan time.Time
	for {
		select {
		case c := <-r.up:
			switch {
			case c.toListener && !r.timing.controlling:
				if fallback == nil {
					fallback = c
					t := time.NewTimer(r.timing.listenGrace())
					defer t.Stop()
					grace = t.C
				}
			case c.toListener || !r.timing.controlling:
				return c, nil
			default:
				err := r.pick(c)
				if err == nil {
					return c, nil
				}
				r.drop(c, err)
			}
		case <-grace:
			return fallback, nil
		case <-ctx.Done():
			err := context.Cause(ctx)
			if fallback != nil && errors.Is(err, ErrNoConnection) {
				return fallback, nil
			}
			return nil, err
		}
	}
}

// pick notifies the controlled side that c is chosen.
func (r *race) pick(c *Conn) error {
	_ = c.SetWriteDeadline(time.Now().Add(pickTime))
	if _, err := c.Write([]byte{pickByte}); err != nil {
		return fmt.Errorf("pick: %w", err)
	}
	return c.SetWriteDeadline(time.Time{})
}

// dial dials one candidate until a connection stands, the candidate is beyond
// hope, or ctx ends.
func (r *race) dial(ctx context.Context, c Candidate) {
	if !sleep(ctx, r.timing.first(c.Kind)) {
		return
	}
	begin := time.Now()
	dialer := r.local.dialer()
	dialer.Control = sharedAbrupt
	if c.Kind == Listen {
		dialer.LocalAddr = nil
	}
	for tries := 1; ; tries++ {
		conn, err := dialer.DialContext(ctx, "tcp", c.Addr.String())
		if err == nil {
			r.stands(ctx, conn.(*net.TCPConn), c, Active)
			return
		}
		wait, ok := r.timing.again(tries, time.Since(begin), rand.Float64()) //nolint:gosec // spreads SYNs, is no secret
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EADDRINUSE):
			wait = max(wait, usedGap)
		case !refused(err):
			ok = false
		}
		if !ok {
			r.local.log.Debug("candidate given up", "path", string(c.Kind), "addr", c.Addr, "tries", tries, "error", err)
			return
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// refused reports whether err is a translator's possible answer to an unexpected SYN.
func refused(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
	}, func(e error) bool { return errors.Is(err, e) })
}

// accept takes connections from addresses that the Peer has named; a translator
// may have given them another port.
func (r *race) accept(ctx context.Context, ln *net.TCPListener) {
	for {
		conn, err := ln.AcceptTCP()
		if ctx.Err() != nil {
			if err == nil {
				abort(conn)
			}
			return
		}
		if err != nil {
			if !sleep(ctx, usedGap) {
				return
			}
			continue
		}
		from := addrPort(conn.RemoteAddr())
		c, ok := r.named(from)
		if !ok {
			r.local.log.Debug("unexpected connection", "addr", from)
			abort(conn)
			continue
		}
		r.wg.Go(func() { r.stands(ctx, conn, c, Passive) })
	}
}

// named is the candidate that a connection from an address belongs to.
func (r *race) named(from netip.AddrPort) (Candidate, bool) {
	i := slices.IndexFunc(r.targets, func(c Candidate) bool { return c.Addr == from })
	if i < 0 {
		i = slices.IndexFunc(r.targets, func(c Candidate) bool { return c.Addr.Addr() == from.Addr() })
	}
	if i < 0 {
		return Candidate{}, false
	}
	c := r.targets[i]
	if c.Kind == Listen { // that is where the Peer listens, not where it dials from
		c.Kind = Mapped
	}
	return c, true
}

// stands takes charge of a new connection and offers it for the choice once it may be
// chosen.
func (r *race) stands(ctx context.Context, tcp *net.TCPConn, c Candidate, how How) {
	conn := &Conn{Conn: tcp, tcp: tcp, kind: c.Kind, how: how, toListener: how == Active && c.Kind == Listen}
	if in, err := info(tcp); err == nil && how == Active && in.controlIn > 1 {
		conn.how = Simultaneous // not one SYN-ACK alone, but a SYN before
	}
	r.mu.Lock()
	ok := r.open != nil && len(r.open) < maxOpen
	if ok {
		r.open[conn] = struct{}{}
	}
	r.mu.Unlock()
	if !ok {
		conn.reset()
		return
	}
	carrier.Tune(tcp)
	stop := context.AfterFunc(ctx, func() { _ = tcp.SetDeadline(time.Unix(1, 0)) })
	err := r.greet(conn)
	if !stop() {
		return // over; run closes it
	}
	if err != nil {
		r.drop(conn, err)
		return
	}
	select {
	case r.up <- conn:
	case <-ctx.Done():
	}
}

// greet runs the exchange before the choice.
func (r *race) greet(conn *Conn) error {
	switch {
	case conn.toListener:
		return nil
	case !r.timing.controlling:
		if _, err := conn.Write([]byte{readyByte}); err != nil {
			return fmt.Errorf("send the ready byte: %w", err)
		}
		return conn.expect(pickByte)
	}
	conn.owed.Store(true)
	// The far side's SYN may belong to a finished Connect; a connection that it still
	// wants brings a ready byte at once.
	if conn.kind == Host || conn.how == Passive {
		return conn.takeReady()
	}
	return nil
}

// drop closes a connection that cannot be chosen.
func (r *race) drop(conn *Conn, reason error) {
	r.local.log.Debug("connection dropped before the pick", "path", string(conn.kind), "remote", conn.Remote(), "error", reason)
	r.mu.Lock()
	delete(r.open, conn)
	r.mu.Unlock()
	conn.reset()
}

// abort closes a connection with a RST.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	conn.Close()
}

// sleep waits, and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
