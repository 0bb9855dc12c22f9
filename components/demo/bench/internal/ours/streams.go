package ours

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"cadre.dev/demo/bench/internal/load"
	"cadre.dev/overlay"
)

// streams is traffic on a Session's own streams, without an application's
// connection at either end. The overlay's public streams are the two control
// connections of a Session with a coordinator: the first takes bulk, the second
// pings, both opened by the dialer. Where the carrier gives control a narrower
// way than other streams, that is part of the figure.
type streams struct {
	server load.Server

	mu      sync.Mutex
	control overlay.ControlConns // of the newest Session; guarded by mu
	changed chan struct{}        // closed and renewed with control; guarded by mu
}

func newStreams() *streams { return &streams{changed: make(chan struct{})} }

func (s *streams) onControl(ctx context.Context, _ overlay.Peer, c overlay.ControlConns) {
	if !c.Dialer {
		var wg sync.WaitGroup
		wg.Go(func() { s.server.Serve(c.First, load.Bulk) })
		wg.Go(func() { s.server.Serve(c.Second, load.Ping) })
		wg.Wait() // the connections end with the Session
		return
	}
	s.mu.Lock()
	s.control = c
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	<-ctx.Done()
}

// dial gives the connection that is there for a mode; to is not looked at. One
// at a time may use it. Closing it leaves the Session as it is.
func (s *streams) dial(ctx context.Context, _ string, mode load.Mode) (net.Conn, error) {
	for {
		s.mu.Lock()
		conn, changed := s.control.First, s.changed
		if mode == load.Ping {
			conn = s.control.Second
		}
		s.mu.Unlock()
		if conn != nil {
			return kept{conn}, conn.SetDeadline(time.Time{})
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a session: %w", context.Cause(ctx))
		}
	}
}

// kept is a connection whose end is not the user's to decide.
type kept struct{ net.Conn }

func (kept) Close() error { return nil }
