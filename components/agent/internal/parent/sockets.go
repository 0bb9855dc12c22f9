package parent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

const (
	// socketLimit bounds how many sockets a parent holds.
	socketLimit = 4096
	// releaseAfter is how long a worker must live on after it released a socket before the parent
	// closes the socket: a worker that is about to fail closes everything first.
	releaseAfter = time.Second
	// claimWithin is how long a new worker has to claim the sockets of the previous one.
	claimWithin = 30 * time.Second
)

// socket is a listening socket that the parent keeps. The file is in no poller.
type socket struct {
	file *os.File
	// given to the present worker.
	given bool
	// ends is when it is closed; zero: not yet known.
	ends time.Time
}

// sockets are the sockets that a parent keeps. Not safe for concurrent use.
type sockets struct {
	sessions []name
	limit    int
	byName   map[name]*socket
}

func newSockets(sessions []name) *sockets {
	return &sockets{sessions: sessions, limit: socketLimit, byName: map[name]*socket{}}
}

// give returns the socket that n names, and opens it if the parent does not keep it yet. A socket
// that the present worker already has is opened a second time and not kept; once is then true and
// the caller closes the file.
func (s *sockets) give(n name) (file *os.File, once bool, err error) {
	if !holds(n, s.sessions) {
		return nil, false, fmt.Errorf("LISTENER_FORBIDDEN: %s is neither on loopback nor of the sessions", n)
	}
	had := s.byName[n]
	if had != nil && !had.given {
		had.given, had.ends = true, time.Time{}
		return had.file, false, nil
	}
	if len(s.byName) >= s.limit {
		return nil, false, errFull
	}
	if file, err = open(n); err != nil {
		return nil, false, err
	}
	if had != nil {
		return file, true, nil
	}
	s.byName[n] = &socket{file: file, given: true}
	return file, false, nil
}

// release records that the worker no longer needs a socket.
func (s *sockets) release(n name, now time.Time) {
	if had := s.byName[n]; had != nil {
		had.given, had.ends = false, now.Add(releaseAfter)
	}
}

// begin is for a new worker: it has nothing yet.
func (s *sockets) begin(now time.Time) {
	for _, had := range s.byName {
		had.given, had.ends = false, now.Add(claimWithin)
	}
}

// prune closes unused sockets and returns when to prune again; zero means after the next change.
func (s *sockets) prune(now time.Time) time.Time {
	var next time.Time
	for n, had := range s.byName {
		switch {
		case had.ends.IsZero():
		case !had.ends.After(now):
			_ = had.file.Close()
			delete(s.byName, n)
		case next.IsZero() || had.ends.Before(next):
			next = had.ends
		}
	}
	return next
}

// clear closes all.
func (s *sockets) clear() {
	for n, had := range s.byName {
		_ = had.file.Close()
		delete(s.byName, n)
	}
}

// open opens a socket as package net does, and takes it out of the poller.
func open(n name) (*os.File, error) {
	var (
		lc  net.ListenConfig
		out interface{ File() (*os.File, error) }
	)
	lc.SetMultipathTCP(false) // apps on this machine do not use it, nor does the gateway
	// Binding does not wait for anybody.
	ctx := context.Background()
	switch n.network {
	case "tcp", "tcp4", "tcp6":
		l, err := lc.Listen(ctx, n.network, n.address)
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:errcheck // the parent keeps a duplicate
		out, _ = l.(*net.TCPListener)
	case "udp", "udp4", "udp6":
		c, err := lc.ListenPacket(ctx, n.network, n.address)
		if err != nil {
			return nil, err
		}
		defer c.Close() //nolint:errcheck // as above
		out, _ = c.(*net.UDPConn)
	}
	if out == nil {
		return nil, errors.New("neither TCP nor UDP: " + n.network)
	}
	return out.File()
}
