package pooler

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// turnout takes the place of Envoy: it always accepts, and forwards to the present leader, or
// closes without one.
type turnout struct {
	l *net.TCPListener

	mu    sync.Mutex
	to    netip.AddrPort        // guarded by mu; zero: no leader
	late  time.Duration         // guarded by mu; the way to the leader takes so long
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

// set changes the leader: existing connections end, as they do when a database is demoted.
func (s *turnout) set(to netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = to
	for c := range s.conns {
		_ = c.Close()
	}
}

// far makes the way of each connection that comes from now on so long.
func (s *turnout) far(late time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = late
}

func (s *turnout) carry(c net.Conn) {
	defer c.Close()
	s.mu.Lock()
	to, late := s.to, s.late
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
	time.Sleep(late)
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

// handOversUnderLoad moves the leadership again and again while clients of three kinds work: with
// short transactions, with longer ones, and with a connection for each query.
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
	work := func(c *client, texts ...string) (works bool) {
		began := time.Now()
		for _, text := range texts {
			if _, err := c.query(t.Context(), text); err != nil {
				count(began, err)
				return false
			}
		}
		count(began, nil)
		return true
	}
	for i := range 8 {
		c := w.app()
		clients.Go(func() {
			texts := []string{"SELECT 1"}
			if i%2 == 1 {
				texts = []string{"BEGIN", "SELECT pg_sleep(0.01)", "COMMIT"}
			}
			for ctx.Err() == nil && work(c, texts...) {
				rest(ctx, time.Duration(i)*time.Millisecond)
			}
		})
	}
	// These clients connect at any time, also between a RESUME and the first server. Each costs
	// PgBouncer's one thread some 5 ms, for its password. On a slow machine more and more of them
	// would keep PgBouncer from its console, so their number is bounded.
	open := make(chan struct{}, 16)
	clients.Go(func() {
		for ctx.Err() == nil {
			select {
			case open <- struct{}{}:
			case <-ctx.Done():
				return
			}
			clients.Go(func() {
				defer func() { <-open }()
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
		if err := w.paused(5 * time.Second); err != nil {
			t.Error(err)
			break
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

// paused retries a pause that failed because the machine was too busy. A failed pause holds no
// clients, so a leader that moved then would cost clients an error, as it should.
func (w *world) paused(limit time.Duration) (err error) {
	for range 20 {
		if err = w.Pause(w.t.Context(), limit); !errors.Is(err, errBusy) {
			return err
		}
		w.t.Log(err)
	}
	return err
}

// slowLogin: a login by a long way is under way when the pause begins. A pause that broke it off
// would give an error to each client that is new after the RESUME, until the next login is done.
func slowLogin(t *testing.T, s *server) {
	w, leader := s.behindTurnout(t)
	before, during, after := w.app(), w.app(), w.app()
	w.get(before, "SELECT 1")
	if err := w.Reconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.sees("no server is left", func(pools []map[string]string) bool { return sum(pools, "sv_idle") == 0 })
	leader.far(time.Second) // below quietWithin
	first := w.asks(before, "SELECT 1")
	w.sees("a login is under way", func(pools []map[string]string) bool { return sum(pools, "sv_login") == 1 })
	if err := w.Pause(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	second := w.asks(during, "SELECT 1")
	w.sees("it waits", func(pools []map[string]string) bool { return sum(pools, "cl_waiting") > 0 })
	if _, err := w.Resume(t.Context()); err != nil {
		t.Error(err)
	}
	third := w.asks(after, "SELECT 1")
	for _, done := range []<-chan error{first, second, third} {
		if err := <-done; err != nil {
			t.Errorf("a client gets: %v", err)
		}
	}
}

// rest waits for d, or until ctx ends: the client's idle time between two queries.
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
