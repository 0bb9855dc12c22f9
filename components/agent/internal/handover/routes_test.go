package handover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

// fake is a pauser that records its calls.
type fake struct {
	name string
	// slow is how long a pause takes, refuse its error.
	slow   time.Duration
	refuse error

	mu  sync.Mutex
	did []string
}

func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, fmt.Sprintf(format, args...))
}

// calls returns the calls since the last calls.
func (f *fake) calls() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := strings.Join(f.did, ", ")
	f.did = nil
	return out
}

func (f *fake) run(ctx context.Context) error {
	f.note("run")
	<-ctx.Done()
	f.note("ran")
	return nil
}

func (f *fake) pause(ctx context.Context, limit time.Duration) error {
	f.note("pause %s", limit)
	select {
	case <-time.After(f.slow):
		return f.refuse
	case <-ctx.Done():
		f.note("undone")
		return ctx.Err()
	}
}

func (f *fake) open(context.Context) (int, error) {
	f.note("open")
	return 3, nil
}

func (f *fake) reconnect(context.Context) error {
	f.note("reconnect")
	return nil
}

func (f *fake) configure(r Route) error {
	if r.Users["bad"] != "" {
		return errors.New("a bad user")
	}
	f.note("configure %s", r.Pause)
	return nil
}

func (f *fake) end() error {
	f.note("end")
	return nil
}

func (f *fake) stats(*Stats) {}

// world is Routes with fakes, and an Envoy that a test plays.
type world struct {
	*Routes

	t     *testing.T
	fakes map[string]*fake
	log   bytes.Buffer
	stop  func()

	mu     sync.Mutex
	envoy  map[string][]netip.AddrPort // guarded by mu
	broken bool                        // guarded by mu
}

func newWorld(t *testing.T, routes ...Route) *world {
	t.Helper()
	w := &world{t: t, fakes: map[string]*fake{}, envoy: map[string][]netip.AddrPort{}}
	w.Routes = New(Config{
		Dir: "/nowhere", Endpoints: w.endpoints, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		VIP: func(slot string) (netip.Addr, bool) {
			var n int
			_, err := fmt.Sscanf(slot, "db-%d", &n)
			return vip(n), err == nil
		},
	})
	w.newPauser = func(r Route, _ Config) (pauser, error) {
		if w.fakes[r.Name] == nil {
			w.fakes[r.Name] = &fake{name: r.Name}
		}
		return w.fakes[r.Name], nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
	w.set(routes...)
	return w
}

func (w *world) set(routes ...Route) {
	w.t.Helper()
	if err := w.Set(routes); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) endpoints(_ context.Context, route string, _ time.Duration) ([]netip.AddrPort, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken {
		return nil, errors.New("no admin")
	}
	return w.envoy[route], nil
}

// show has Envoy show slots for all routes, and looked at.
func (w *world) show(slots ...int) {
	w.mu.Lock()
	for _, name := range []string{"master", "pooled"} {
		w.envoy[name] = at(slots...)
	}
	w.mu.Unlock()
	time.Sleep(lookPaused)
	synctest.Wait()
}

func (w *world) calls(route, want string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.fakes[route].calls(); got != want {
		w.t.Errorf("%s did %q, want %q", route, got, want)
	}
}

func route(name string, n byte) Route {
	return Route{
		Name: name, Group: "db", Role: "leader", Port: 5432, Pause: 5 * time.Second,
		VIP: netip.AddrFrom4([4]byte{127, 10, 0, n}), Behind: netip.AddrFrom4([4]byte{127, 11, 0, n}),
	}
}

func states(results []Result) string {
	var out []string
	for _, r := range results {
		out = append(out, r.Route+" "+string(r.State))
	}
	return strings.Join(out, ", ")
}

func TestAHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		master, pooled := route("master", 1), route("pooled", 2)
		pooled.Pooler = PgBouncer
		replicas := route("replicas", 3)
		replicas.Behind = replicas.VIP // Envoy itself listens there
		other := route("other", 4)
		other.Group = "web"
		w := newWorld(t, master, pooled, replicas, other)
		w.show(1)
		time.Sleep(lookIdle)
		w.calls("master", "run")
		w.calls("pooled", "run, reconnect")
		if len(w.fakes) != 3 {
			t.Errorf("%d pausers, want none for a route that does not pause", len(w.fakes))
		}
		w.fakes["pooled"].slow = 100 * time.Millisecond
		if got := states(w.Pause(t.Context(), "db", "op", 3*time.Second)); got != "master waiting, pooled paused" {
			t.Errorf("got %s", got)
		}
		w.calls("master", "pause 3s")
		w.calls("pooled", "pause 3s")
		w.calls("other", "run")
		if got := w.Stats(); len(got) != 3 || !got[0].Paused || got[1].Paused || !got[2].Paused {
			t.Errorf("%+v", got)
		}
		w.Release("db", "op", "db-2")
		w.show(1)
		w.calls("master", "")
		w.show(2)
		w.calls("master", "open")
		w.calls("pooled", "open")
		if got := states(w.Pause(t.Context(), "db", "op", 3*time.Second)); got != "master released, pooled released" {
			t.Errorf("once more: %s", got)
		}
		w.Release("nobody", "op", "")
		w.stop()
		if want := `msg="a route is released" route=master group=db operation=op`; !strings.Contains(w.log.String(), want) || !strings.Contains(w.log.String(), "connections=3") {
			t.Errorf("no %q in\n%s", want, w.log.String())
		}
		w.calls("pooled", "ran, end")
	})
}

func TestAReleaseEndsAHoldThatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, route("master", 1))
		w.show(1)
		w.fakes["master"].slow = time.Hour
		var results []Result
		var asking sync.WaitGroup
		for range 2 { // twice, too
			asking.Go(func() {
				got := w.Pause(t.Context(), "db", "op", 0)
				w.mu.Lock()
				defer w.mu.Unlock()
				results = append(results, got...)
			})
		}
		w.show(1)
		w.calls("master", "run, pause 5s")
		w.Release("db", "op", "")
		asking.Wait()
		if got := states(results); got != "master released, master released" {
			t.Errorf("got %s", got)
		}
		w.calls("master", "undone, open")
	})
}

func TestEveryPauseEndsAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, route("master", 1))
		w.show(1)
		w.Pause(t.Context(), "db", "op", 0)
		synctest.Wait() // the unit reads the endpoints of the previous leader
		w.show(3)       // no release arrives, but the route has a leader
		w.calls("master", "run, pause 5s, open")

		w.mu.Lock()
		w.broken = true // Envoy
		w.mu.Unlock()
		w.Pause(t.Context(), "db", "op2", 0)
		w.Release("db", "op2", "nobody-7")
		time.Sleep(5*time.Second - time.Millisecond)
		w.calls("master", "pause 5s")
		time.Sleep(time.Millisecond)
		w.calls("master", "open")
		if !strings.Contains(w.log.String(), `reason="its limit ended"`) || !strings.Contains(w.log.String(), "slot=nobody-7") {
			t.Errorf("the log does not say it:\n%s", w.log.String())
		}

		w.Pause(t.Context(), "db", "op3", 0)
		w.stop()
		w.calls("master", "pause 5s, open, ran, end")
	})
}

func TestCallersHaveATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, route("master", 1))
		w.fakes["master"].slow = 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := states(w.Pause(ctx, "db", "op", 0)); got != "master unknown" {
			t.Errorf("got %s", got)
		}
		w.calls("master", "run, pause 5s") // the pause continues
		w.fakes["master"].refuse = errors.New("transactions are open")
		if got := w.Pause(t.Context(), "db", "op", 0); states(got) != "master gave_up" || got[0].Message != "transactions are open" {
			t.Errorf("got %+v", got)
		}
		w.calls("master", "open")
		if got := w.Pause(t.Context(), "nobody", "op", 0); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
}

func TestRoutesComeChangeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		master := route("master", 1)
		w := newWorld(t, master)
		w.calls("master", "run")
		w.set(master)
		w.calls("master", "")
		master.Pause = time.Second
		w.set(master)
		w.calls("master", "configure 1s")
		w.Pause(t.Context(), "db", "op", 0)
		w.calls("master", "pause 1s")
		master.Behind = netip.MustParseAddr("127.11.9.9") // waiting clients continue to the old address
		w.set(master)
		w.calls("master", "open, ran, end, run")
		master.Pooler = PgBouncer
		w.set(master)
		w.calls("master", "ran, run")
		master.Port++ // the pooler that runs is taken over, or ended, by the next one
		w.set(master)
		w.calls("master", "ran, run")
		w.set()
		w.calls("master", "ran, end")
		if got := w.Stats(); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestKeptPoolersAreNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pooled := route("pooled", 1)
		pooled.Pooler = PgBouncer
		w := newWorld(t)
		w.cfg.Keep = true
		w.set(pooled)
		w.stop()
		w.calls("pooled", "run, ran")
	})
}

func TestSetReportsAllFaults(t *testing.T) {
	bad := route("bad", 1)
	bad.Pooler, bad.Port, bad.VIP = "pgpool", 0, netip.MustParseAddr("10.0.0.1")
	envoys, again, good := route("envoys", 2), route("again", 3), route("good", 3)
	envoys.Behind = envoys.VIP // Envoy itself listens there
	s := New(Config{})
	err := s.Set([]Route{bad, envoys, good, again, good})
	for _, want := range []string{`route bad: pooler "pgpool"`, "vip 10.0.0.1", "port", "route again: 127.10.0.3:5432 is the address of route good too", "route good: it is there twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if got, _ := s.wanted.Get(); len(got) != 1 || got[0].Name != "good" {
		t.Errorf("served: %+v", got)
	}
}

// TestARouteThatCannotBeMade checks that Results lists such a route, and that it is made as soon as
// that is possible.
func TestARouteThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		whole, tries := w.newPauser, 0
		w.newPauser = func(r Route, cfg Config) (pauser, error) {
			if tries++; r.Users["bad"] != "" {
				return nil, errors.New("a bad user")
			}
			return whole(r, cfg)
		}
		pooled := route("pooled", 1)
		pooled.Pooler, pooled.Users = PgBouncer, map[string]string{"bad": "/x"}
		w.set(pooled)
		if got := w.Stats(); len(got) != 1 || got[0].Problem != "a bad user" || got[0].Pooler == nil || got[0].Pooler.Up || got[0].Group != "db" {
			t.Errorf("%+v", got)
		}
		if got := w.Pause(t.Context(), "db", "op", 0); states(got) != "pooled gave_up" || got[0].Message != "the route is not served" {
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if tries < 12 || tries > 20 {
			t.Errorf("%d tries in a minute", tries)
		}
		if n := strings.Count(w.log.String(), "a bad user"); n != 1 {
			t.Errorf("it is logged %d times:\n%s", n, w.log.String())
		}
		pooled.Users = nil
		w.set(pooled)
		time.Sleep(restMost)
		w.calls("pooled", "run")
		if got := w.Stats(); len(got) != 1 || got[0].Problem != "" {
			t.Errorf("%+v", got)
		}
		w.Pause(t.Context(), "db", "op2", 0)
		w.calls("pooled", "pause 5s")

		good := pooled.Pause
		pooled.Users, pooled.Pause = map[string]string{"bad": "/x"}, time.Second // it keeps those of before
		w.set(pooled)
		if got := w.Stats(); got[0].Problem != "it keeps its settings: a bad user" {
			t.Errorf("%+v", got)
		}
		pooled.Users, pooled.Pause = nil, good
		w.set(pooled)
		if got := w.Stats(); got[0].Problem != "" {
			t.Errorf("%+v", got)
		}
		w.set()
		w.calls("pooled", "open, ran, end")
	})
}

func TestAnAddressThatCannotBeServedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		w := newWorld(t)
		w.newPauser = newPauser
		w.cfg.Listen = func(context.Context, string, string) (net.Listener, error) {
			tries++
			return nil, errors.New("in use")
		}
		w.set(route("master", 1))
		if got := w.Stats(); len(got) != 1 || !strings.Contains(got[0].Problem, "in use") || got[0].Connections == nil {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if tries < 12 || tries > 20 {
			t.Errorf("%d tries in a minute", tries)
		}
		if n := strings.Count(w.log.String(), "a route's address is not served"); n != 1 {
			t.Errorf("it is logged %d times", n)
		}
	})
}

// TestThroughARealGate: a client that dials while the leadership moves notices only a pause.
func TestThroughARealGate(t *testing.T) {
	listen := func() *net.TCPListener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l.(*net.TCPListener)
	}
	at0, envoy := listen(), listen()
	var mu sync.Mutex
	shown := at(1)
	s := New(Config{
		Listen: func(context.Context, string, string) (net.Listener, error) { return at0, nil },
		VIP:    func(string) (netip.Addr, bool) { return vip(2), true },
		Endpoints: func(context.Context, string, time.Duration) ([]netip.AddrPort, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(shown), nil
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Dir: t.TempDir(),
	})
	// The pauser's target is the address behind: one on which our Envoy listens.
	s.newPauser = func(r Route, cfg Config) (pauser, error) {
		ap := envoy.Addr().(*net.TCPAddr).AddrPort()
		r.Behind, r.Port = ap.Addr(), ap.Port()
		return newPauser(r, cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if err := s.Set([]Route{route("master", 1)}); err != nil {
		t.Fatal(err)
	}
	until(t, "the routes that are set stand", func() bool { return len(s.Stats()) == 1 })
	if got := states(s.Pause(t.Context(), "db", "op", 0)); got != "master waiting" {
		t.Fatalf("got %s", got)
	}
	app, err := net.Dial("tcp", at0.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	_, _ = io.WriteString(app, "hello")
	s.Release("db", "op", "db-2")
	_ = envoy.SetDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := envoy.Accept(); err == nil {
		t.Fatal("it reached the leader before")
	}
	mu.Lock()
	shown = at(2)
	mu.Unlock()
	_ = envoy.SetDeadline(time.Now().Add(10 * time.Second))
	c, err := envoy.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if stats := s.Stats(); stats[0].Connections.Resumed != 1 {
		t.Errorf("%+v", stats[0].Connections)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
