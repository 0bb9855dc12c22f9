package storetest

import (
	"context"
	"os"
	"sync"
)

// spareToken is the management token of servers with ACLs.
const spareToken = "5c1e6f0a-7d2b-4c94-9a53-1f6a0d6f3b11" //nolint:gosec // of servers on loopback that end with the tests

// spares starts the next servers with ACLs in advance. A start takes two seconds, most of them the
// wait for a leader: while one test runs, the servers of the next tests become ready. Unused ones
// end with the test binary, like their guards.
var spares spare

// spareServers is how many are started in advance.
const spareServers = 2

type spare struct {
	mu    sync.Mutex
	taken int
	next  []chan started
}

type started struct {
	server launched
	err    error
}

// take returns an unused server, and the caller stops it. The first call of a test binary starts no
// spare: there may be no second test.
func (s *spare) take(ctx context.Context, binary string) (launched, error) {
	s.mu.Lock()
	s.taken++
	var ready chan started
	if len(s.next) > 0 {
		ready, s.next = s.next[0], s.next[1:]
	}
	for s.taken > 1 && len(s.next) < spareServers {
		next := make(chan started, 1)
		s.next = append(s.next, next)
		go func() { next <- startSpare(ctx, binary) }()
	}
	s.mu.Unlock()
	one := started{}
	if ready != nil {
		one = <-ready
	} else {
		one = startSpare(ctx, binary)
	}
	return one.server, one.err
}

func startSpare(ctx context.Context, binary string) started {
	dir, err := os.MkdirTemp("", "cadre-consul-")
	if err != nil {
		return started{err: err}
	}
	server, err := launch(ctx, binary, dir, spareToken)
	if err != nil {
		_ = os.RemoveAll(dir)
	}
	return started{server: server, err: err}
}
