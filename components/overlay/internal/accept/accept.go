// Package accept accepts the connections at a node's listener. Each gets through its handshake in a
// bounded time, among a bounded number of unauthenticated callers, and then belongs to a Session or
// to a first contact.
package accept

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/counters"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/limit"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/session"
)

// Config makes a [Server].
type Config struct {
	// Handshakes is the number of connections without a verified Peer. Time bounds each
	// handshake while there are free places. Patience is the time for which an unfinished
	// handshake keeps its place against waiting callers.
	Handshakes     int
	Time, Patience time.Duration
	Maker          *session.Maker
	// FirstContact serves an unauthenticated connection and closes it; nil refuses first contacts.
	FirstContact func(context.Context, *tls.Conn)
	Counters     *counters.Counters
	Log          *slog.Logger
}

// Server takes connections. Make it with [New].
type Server struct {
	cfg        Config
	handshakes *limit.Limiter
}

// New takes none before [Server.Run].
func New(cfg Config) *Server {
	return &Server{cfg: cfg, handshakes: limit.New(cfg.Handshakes, 0, 0)}
}

// Inside is how many connections are short of a known Peer.
func (s *Server) Inside() int { return s.handshakes.Inside() }

// pauseAfter keeps a listener that fails for want of resources from spinning.
const pauseAfter = 50 * time.Millisecond

// Run accepts connections until ctx ends, closes ln then, and returns when the last connection is
// served. Unauthenticated callers share a fixed number of places: a connection is closed at once if
// no place is free and no holder is overdue (INP-04).
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept session: %w", err)
		case err != nil:
			s.cfg.Log.Warn("connection not accepted", "error", err)
			select {
			case <-time.After(pauseAfter):
			case <-ctx.Done():
			}
			continue
		}
		place, ok := s.handshakes.Enter(ctx, s.cfg.Patience, func() { conn.Close() })
		if !ok {
			s.cfg.Counters.Overloaded.Add(1)
			conn.Close()
			continue
		}
		wg.Go(func() { s.welcome(ctx, conn, place) })
	}
}

// welcome takes a connection through its handshake to the service of its ALPN. It holds a
// place among the handshakes until the far side is known.
func (s *Server) welcome(ctx context.Context, conn net.Conn, place *limit.Place) {
	carrier.Tune(conn)
	tc, hs, stop, give, err := s.cfg.Maker.Handshake(ctx, conn)
	if err != nil {
		place.Leave()
		s.cfg.Log.Debug("handshake refused", "error", err)
		return
	}
	defer give()
	if tc.ConnectionState().NegotiatedProtocol == identity.ALPNAdmission {
		stop()
		place.Leave()
		s.cfg.FirstContact(ctx, tc)
		return
	}
	defer place.Leave()
	place.GotOn(s.cfg.Time)
	if _, err := s.cfg.Maker.Join(hs, tc, stop, link.Gateway); err != nil {
		s.cfg.Log.Info("session refused", "error", err)
	}
}
