package xdsrelay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"cadre.dev/agent/internal/consulproxy"
	"cadre.dev/overlay"
	"cadre.dev/raced/synctest"
)

// world is a Relay with coordinators in one bubble of virtual time.
type world struct {
	t       *testing.T
	relay   *Relay
	front   *pipes
	servers []*server
}

// server is one coordinator: it answers each line with its name.
type server struct {
	id overlay.ID

	mu     sync.Mutex
	refuse bool       // guarded by mu
	hang   bool       // guarded by mu: opening never returns
	down   bool       // guarded by mu: there is no Session
	brief  bool       // guarded by mu: streams end at once
	conns  []net.Conn // guarded by mu
	opened int        // guarded by mu
}

func newWorld(t *testing.T, n int) *world {
	t.Helper()
	w := &world{t: t, front: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}}
	w.relay = New(Config{
		Address: "127.0.0.1:8502", Log: slog.New(slog.DiscardHandler),
		Listen: func(context.Context, string, string) (net.Listener, error) { return w.front, nil },
	})
	for i := range n {
		w.servers = append(w.servers, &server{id: overlay.ID{Cluster: "test", Group: overlay.CoordinatorGroup, Slot: fmt.Sprintf("coordinator-%d", i)}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.relay.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

func (w *world) way() consulproxy.Way {
	return consulproxy.Way{Self: "web-0", Coordinators: func() []consulproxy.Coordinator {
		var out []consulproxy.Coordinator
		for _, s := range w.servers {
			s.mu.Lock()
			out = append(out, consulproxy.Coordinator{ID: s.id, Up: !s.down})
			s.mu.Unlock()
		}
		return out
	}, Dial: func(ctx context.Context, id overlay.ID) (net.Conn, error) {
		for _, s := range w.servers {
			if s.id == id {
				return s.accept(ctx)
			}
		}
		return nil, errors.New("nobody")
	}}
}

func (w *world) open() { w.relay.Open(w.way()) }

// preferred are the servers in the order of the Consul proxy.
func (w *world) preferred() []*server {
	var out []*server
	for _, id := range consulproxy.Order("web-0", w.way().Coordinators(), nil, time.Time{}) {
		for _, s := range w.servers {
			if s.id == id {
				out = append(out, s)
			}
		}
	}
	return out
}

func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := w.front.dial(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// ask sends a byte on conn and returns the answering coordinator; "" when the connection is over.
func ask(conn net.Conn) string {
	if _, err := conn.Write([]byte("x")); err != nil {
		return ""
	}
	name := make([]byte, 32)
	n, err := conn.Read(name)
	if err != nil {
		return ""
	}
	return string(name[:n])
}

func (s *server) accept(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hang || s.down {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, context.Cause(ctx)
	}
	if s.refuse {
		return nil, overlay.ErrRefused
	}
	near, far := net.Pipe()
	s.opened++
	s.conns = append(s.conns, far)
	if s.brief {
		_ = far.Close()
	}
	go func() {
		for data := make([]byte, 1); ; {
			if _, err := far.Read(data); err != nil {
				return
			}
			if _, err := far.Write([]byte(s.id.Slot)); err != nil {
				return
			}
		}
	}()
	return near, nil
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// die ends all streams and takes none.
func (s *server) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = true
	for _, c := range s.conns {
		_ = c.Close()
	}
}

func TestADeadCoordinatorIsReplacedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.open()
		order := w.preferred()
		for i, s := range order {
			conn := w.dial()
			if got := ask(conn); got != s.id.Slot {
				t.Errorf("connection %d goes to %q, want %s", i, got, s.id.Slot)
			}
			began := time.Now()
			s.die()
			if got := ask(conn); got != "" || time.Since(began) > 0 {
				t.Errorf("after its end %q answers, after %v", got, time.Since(began))
			}
		}
		if got := ask(w.dial()); got != "" {
			t.Errorf("%q answers, and all are gone", got)
		}
		order[1].set(func() { order[1].refuse = false })
		if got := ask(w.dial()); got != order[1].id.Slot {
			t.Errorf("%q answers, want the returned coordinator", got)
		}
	})
}

func TestARefusingCoordinatorIsSkipped(t *testing.T) {
	for name, tc := range map[string]struct {
		fault func(*server)
		took  time.Duration
	}{
		"it refuses":          {func(s *server) { s.refuse = true }, 0},
		"it does not answer":  {func(s *server) { s.hang = true }, tryFor},
		"there is no Session": {func(s *server) { s.down = true }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				w.open()
				order := w.preferred()
				order[0].set(func() { tc.fault(order[0]) })
				began := time.Now()
				if got := ask(w.dial()); got != order[1].id.Slot || time.Since(began) != tc.took {
					t.Errorf("%q answers after %v", got, time.Since(began))
				}
				began = time.Now()
				if got := ask(w.dial()); got != order[1].id.Slot || time.Since(began) > 0 {
					t.Errorf("the next time %q answers after %v", got, time.Since(began))
				}
			})
		})
	}
}

// TestACoordinatorThatEndsStreamsAtOnce: the connection is lost, and the next one is not.
func TestACoordinatorThatEndsStreamsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.open()
		order := w.preferred()
		order[0].set(func() { order[0].brief = true })
		if got := ask(w.dial()); got != "" {
			t.Errorf("%q answers", got)
		}
		synctest.Wait()
		if got := ask(w.dial()); got != order[1].id.Slot {
			t.Errorf("then %q answers", got)
		}
	})
}

func TestNoCoordinatorAnswersWithinTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		w.open()
		for _, s := range w.servers {
			s.set(func() { s.hang = true })
		}
		began := time.Now()
		if got := ask(w.dial()); got != "" || time.Since(began) != connectFor {
			t.Errorf("%q answers after %v", got, time.Since(began))
		}
	})
}

func TestBeforeAndAfterItIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		if got := ask(w.dial()); got != "" {
			t.Errorf("%q answers before it is open", got)
		}
		w.open()
		conn := w.dial()
		if got := ask(conn); got == "" {
			t.Error("no coordinator answers")
		}
		w.relay.Shut()
		synctest.Wait()
		if got := ask(conn); got != "" {
			t.Errorf("%q answers after it was shut", got)
		}
		if got := ask(w.dial()); got != "" {
			t.Errorf("%q answers a new connection after it was shut", got)
		}
		w.open()
		if got := ask(w.dial()); got == "" {
			t.Error("no coordinator answers when it is open again")
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.open()
		var all []net.Conn
		for range maxConns {
			conn := w.dial()
			if ask(conn) == "" {
				t.Fatalf("connection %d is not carried", len(all))
			}
			all = append(all, conn)
		}
		if got := ask(w.dial()); got != "" {
			t.Errorf("%d connections are open", maxConns+1)
		}
		_ = all[0].Close()
		synctest.Wait()
		if got := ask(w.dial()); got == "" {
			t.Error("none is carried after one has ended")
		}
	})
}

func TestItGoesBackWhereItBelongs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.open()
		order := w.preferred()
		order[0].die()
		conn := w.dial()
		if got := ask(conn); got != order[1].id.Slot {
			t.Errorf("%q answers", got)
		}
		order[0].set(func() { order[0].refuse = false })
		began := time.Now()
		if n, err := conn.Read(make([]byte, 1)); err == nil || time.Since(began) < settleEvery || time.Since(began) > 2*settleEvery {
			t.Errorf("read %d, %v after %v", n, err, time.Since(began))
		}
		conn = w.dial()
		if got := ask(conn); got != order[0].id.Slot {
			t.Errorf("%q answers, want the preferred one", got)
		}
		// Here it stays.
		time.AfterFunc(5*settleEvery, func() { order[0].die() })
		began = time.Now()
		if _, err := conn.Read(make([]byte, 1)); err == nil || time.Since(began) != 5*settleEvery {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestHalves uses real sockets: one direction ends, and the other may still send its last bytes.
func TestHalves(t *testing.T) {
	behind, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close()
	address := make(chan string, 1)
	r := New(Config{Address: "127.0.0.1:0", Listen: func(ctx context.Context, network, at string) (net.Listener, error) {
		l, err := (&net.ListenConfig{}).Listen(ctx, network, at)
		if err == nil {
			address <- l.Addr().String()
		}
		return l, err
	}})
	id := overlay.ID{Cluster: "test", Group: overlay.CoordinatorGroup, Slot: "coordinator-0"}
	r.Open(consulproxy.Way{
		Self: "web-0", Coordinators: func() []consulproxy.Coordinator { return []consulproxy.Coordinator{{ID: id, Up: true}} },
		Dial: func(ctx context.Context, _ overlay.ID) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", behind.Addr().String())
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	near, err := net.Dial("tcp", <-address)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := behind.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if _, err := near.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	_ = near.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(far); err != nil || string(got) != "question" {
		t.Errorf("far side read %q (%v)", got, err)
	}
	if _, err := far.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	if got, err := io.ReadAll(near); err != nil || string(got) != "answer" {
		t.Errorf("near side read %q (%v)", got, err)
	}
}

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
	case <-ctx.Done():
	}
	return nil, net.ErrClosed
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8502} }
