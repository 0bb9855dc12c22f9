package pooler

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// turnout stands where Envoy does: it accepts always, and carries to the leader that there
// is, or closes when there is none.
type turnout struct {
	l *net.TCPListener

	mu    sync.Mutex
	to    netip.AddrPort        // guarded by mu; zero: nobody leads
	conns map[net.Conn]struct{} // guarded by mu
}

func newTurnout(t *testing.T) *turnout {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &turnout{l: l.(*net.TCPListener), conns: map[net.Conn]struct{}{}}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		s.set(netip.AddrPort{})
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.carry(c) })
		}
	})
	return s
}

func (s *turnout) at() netip.AddrPort { return s.l.Addr().(*net.TCPAddr).AddrPort() }

// set makes another the leader: what stands ends, as it does when a database is demoted.
func (s *turnout) set(to netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = to
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *turnout) carry(c net.Conn) {
	defer c.Close()
	s.mu.Lock()
	to := s.to
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	}()
	if !to.IsValid() {
		return
	}
	d, err := net.Dial("tcp", to.String())
	if err != nil {
		return
	}
	defer d.Close()
	go func() {
		_, _ = io.Copy(d, c)
		_ = d.Close()
	}()
	_, _ = io.Copy(c, d)
}

// handOversUnderLoad: the leadership moves again and again while clients of three kinds
// work: with short transactions, with longer ones, and with a connection for each query.
func handOversUnderLoad(t *testing.T, s *server) {
	w, leader := s.behindTurnout(t)
	ctx, cancel := context.WithCancel(t.Context())
	var (
		clients sync.WaitGroup
		mu      sync.Mutex
		queries int
		longest time.Duration
	)
	count := func(began time.Time, err error) {
		mu.Lock()
		defer mu.Unlock()
		queries++
		longest = max(longest, time.Since(began))
		if err != nil && ctx.Err() == nil {
			t.Errorf("a client gets: %v", err)
		}
	}
	work := func(c *client, texts ...string) {
		began := time.Now()
		for _, text := range texts {
			if _, err := c.query(t.Context(), text); err != nil {
				count(began, err)
				return
			}
		}
		count(began, nil)
	}
	for i := range 8 {
		c := w.app()
		clients.Go(func() {
			for ctx.Err() == nil {
				if i%2 == 0 {
					work(c, "SELECT 1")
				} else {
					work(c, "BEGIN", "SELECT pg_sleep(0.01)", "COMMIT")
				}
				rest(ctx, time.Duration(i)*time.Millisecond)
			}
		})
	}
	// They come when they come, also between a RESUME and the first server. Each costs
	// PgBouncer's one thread some 5 ms, for its password.
	clients.Go(func() {
		for ctx.Err() == nil {
			clients.Go(func() {
				began := time.Now()
				c, err := w.connect("app")
				if err != nil {
					count(began, err)
					return
				}
				work(c, "SELECT 1")
				c.close()
			})
			rest(ctx, 50*time.Millisecond)
		}
	})
	const rounds = 40
	for range rounds {
		rest(ctx, 50*time.Millisecond)
		if err := w.Pause(t.Context(), 5*time.Second); err != nil {
			t.Error(err)
		}
		leader.set(netip.AddrPort{})
		rest(ctx, 50*time.Millisecond)
		leader.set(s.at)
		b := time.Now()
		n, err := w.Resume(t.Context())
		if err != nil {
			t.Error(err)
		}
		r := time.Since(b)
		mu.Lock()
		q := queries
		mu.Unlock()
		for range 1000 {
			mu.Lock()
			d := queries - q
			mu.Unlock()
			if d > 0 {
				break
			}
			rest(ctx, time.Millisecond)
		}
		t.Logf("resume took %v, %d waited, first answer after %v", r, n, time.Since(b))
	}
	rest(ctx, 50*time.Millisecond)
	cancel()
	clients.Wait()
	t.Logf("%d queries in %d hand-overs, the longest took %v", queries, rounds, longest)
}

// rest waits for d, or until ctx ends: what a client does between two queries.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// behindTurnout is a Pooler that reaches s through a turnout.
func (s *server) behindTurnout(t *testing.T) (*world, *turnout) {
	t.Helper()
	leader := newTurnout(t)
	leader.set(s.at)
	cfg := s.config(t)
	cfg.Target = leader.at()
	return runPooler(t, cfg), leader
}
