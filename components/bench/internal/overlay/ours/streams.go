package ours

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/overlay"
)

// streams is pings on a Session's own streams, without an application's connection
// at either end: on the second of the two control connections of a Session with a
// coordinator, which the dialer opens. Bulk, which has no business there, is
// [running.flow].
type streams struct {
	server load.Server

	mu      sync.Mutex
	control overlay.ControlConns // of the newest Session; guarded by mu
	changed chan struct{}        // closed and renewed with control; guarded by mu
}

func newStreams() *streams { return &streams{changed: make(chan struct{})} }

func (s *streams) onControl(ctx context.Context, _ overlay.Peer, c overlay.ControlConns) {
	if !c.Dialer {
		s.server.Serve(c.Second, load.Ping) // it ends with the Session
		return
	}
	s.mu.Lock()
	s.control = c
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	<-ctx.Done()
}

// dial returns the connection for pings, and ignores to. One caller at a time may use it. Closing
// it leaves the Session unchanged.
func (s *streams) dial(ctx context.Context, _ string, mode load.Mode) (net.Conn, error) {
	if mode != load.Ping {
		return nil, fmt.Errorf("control connections take no %q", mode)
	}
	for {
		s.mu.Lock()
		conn, changed := s.control.Second, s.changed
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
