package consulproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"cadre.dev/overlay"
)

// world is a Proxy with coordinators in one bubble of virtual time. All coordinators answer with
// one index, like those of one cluster.
type world struct {
	t       *testing.T
	proxy   *Proxy
	servers []*server
	client  *http.Client

	mu      sync.Mutex
	index   int           // guarded by mu
	changed chan struct{} // guarded by mu
}

// server is one coordinator's Consul proxy.
type server struct {
	w  *world
	id overlay.ID
	// handle may replace the server's handler.
	handle func(http.ResponseWriter, *http.Request) (done bool)

	mu      sync.Mutex
	away    bool          // guarded by mu: all connections are refused
	silent  chan struct{} // guarded by mu: nil, or answers wait until it is closed
	conns   []net.Conn    // guarded by mu
	asked   []*http.Request
	askedAt []time.Time
}

// newWorld starts a Proxy with n coordinators. It is over when the test is.
func newWorld(t *testing.T, n int) *world {
	t.Helper()
	w := &world{t: t, index: 7, changed: make(chan struct{})}
	front := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	w.proxy = New(Config{
		Address: "127.0.0.1:8500", Log: slog.New(slog.DiscardHandler),
		Listen: func(context.Context, string, string) (net.Listener, error) { return front, nil },
	})
	for i := range n {
		w.servers = append(w.servers, &server{w: w, id: coordinatorID(i)})
	}
	transport := &http.Transport{DialContext: front.dial, MaxIdleConnsPerHost: 1000}
	w.client = &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.proxy.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		for _, s := range w.servers {
			s.speak()
			s.cut()
		}
		running.Wait()
		transport.CloseIdleConnections()
	})
	return w
}

func (w *world) open() {
	w.proxy.Open(Way{Self: "web-0", Coordinators: func() []Coordinator {
		var out []Coordinator
		for _, s := range w.servers {
			s.mu.Lock()
			out = append(out, Coordinator{ID: s.id, Up: !s.away})
			s.mu.Unlock()
		}
		return out
	}, Dial: w.dial})
}

func (w *world) dial(ctx context.Context, id overlay.ID) (net.Conn, error) {
	for _, s := range w.servers {
		if s.id == id {
			return s.accept(ctx)
		}
	}
	return nil, fmt.Errorf("no coordinator %s", id)
}

// inUse is the coordinator that the Proxy holds on to.
func (w *world) inUse() *server {
	w.t.Helper()
	u, _ := w.proxy.current.Get()
	if u == nil {
		w.t.Fatal("no coordinator is in use")
	}
	for _, s := range w.servers {
		if s.id == u.id {
			return s
		}
	}
	panic("not one of the world")
}

// set raises the index, which answers blocking queries.
func (w *world) set(index int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index = index
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) get() (int, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.index, w.changed
}

// ask is one request of a workload: status, text and index of the answer.
func (w *world) ask(method, path string, body io.Reader) (status int, text string, index string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://127.0.0.1:8500"+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := w.client.Do(req)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error(), ""
	}
	return res.StatusCode, string(all), res.Header.Get("X-Consul-Index")
}

func (s *server) accept(context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errors.New("not in reach")
	}
	near, far := net.Pipe()
	s.conns = append(s.conns, far)
	h2 := &http2.Server{}
	_ = http2.ConfigureServer(&http.Server{}, h2) // channels of its own, in this bubble
	go h2.ServeConn(&muted{Conn: far, s: s, closed: make(chan struct{})}, &http2.ServeConnOpts{Handler: s})
	return near, nil
}

// die ends all connections and refuses new ones; live undoes it.
func (s *server) die() {
	s.mu.Lock()
	s.away = true
	s.mu.Unlock()
	s.cut()
}

func (s *server) live() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = false
}

func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

// hush stops the server's answers and keeps its connections open; speak undoes it.
func (s *server) hush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = make(chan struct{})
}

func (s *server) speak() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent != nil {
		close(s.silent)
		s.silent = nil
	}
}

func (s *server) requests() ([]*http.Request, []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.askedAt
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked, s.askedAt = append(s.asked, r), append(s.askedAt, time.Now())
	s.mu.Unlock()
	if s.handle != nil && s.handle(w, r) {
		return
	}
	if after, err := strconv.Atoi(r.URL.Query().Get("index")); err == nil {
		wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
		if err != nil {
			wait = defaultWait
		}
		over := time.After(wait)
		for now, changed := s.w.get(); now <= after; now, changed = s.w.get() {
			select {
			case <-changed:
			case <-over:
				after = -1
			case <-r.Context().Done():
				return
			}
		}
	}
	now, _ := s.w.get()
	w.Header().Set("X-Consul-Index", strconv.Itoa(now))
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %s", s.id.Slot, r.Method, r.URL.Path, strings.TrimSpace(string(body)))
}

// muted is a connection that brings nothing while its server is silent.
type muted struct {
	net.Conn

	s      *server
	once   sync.Once
	closed chan struct{}
}

func (m *muted) Write(p []byte) (int, error) {
	m.s.mu.Lock()
	silent := m.s.silent
	m.s.mu.Unlock()
	if silent != nil {
		select {
		case <-silent:
		case <-m.closed:
			return 0, net.ErrClosed
		}
	}
	return m.Conn.Write(p)
}

func (m *muted) Close() error {
	m.once.Do(func() { close(m.closed) })
	return m.Conn.Close()
}

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
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

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8500} }
