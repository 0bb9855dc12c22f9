package overlay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

const servedPort = 8500

// served is one connection that reached a node's own service.
type served struct {
	ctx  context.Context //nolint:containedctx // the context of the service
	peer Peer
	conn net.Conn
}

// withService serves servedPort and passes the connections to got.
func withService(got chan<- served) func(*Config) {
	return func(c *Config) {
		c.Serve = map[uint16]func(context.Context, Peer, net.Conn){
			servedPort: func(ctx context.Context, p Peer, conn net.Conn) { got <- served{ctx, p, conn} },
		}
	}
}

// dialService opens a connection that works.
func (n *testNode) dialService(t *testing.T, other *testNode, port uint16) net.Conn {
	t.Helper()
	conn, err := n.DialService(t.Context(), other.id, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestServiceKnowsTheCallersBoot(t *testing.T) {
	w := newWorld(t)
	at := make(chan served, 1)
	a, c := w.node("db", "a", 1), w.node(CoordinatorGroup, "coordinator-0", 2, withService(at))
	// The coordinator forwards no port to a, and offers none.
	connect(a, c, nil, nil)
	conn := a.dialService(t, c, servedPort)
	got := <-at
	if got.peer.ID != a.id || got.peer.BootID != a.bootID() || got.peer.VIP != c.vip(a) {
		t.Errorf("the service sees %+v, want boot %s of %s", got.peer, a.bootID(), a.id)
	}
	want := Addr{ID: a.id, BootID: a.bootID(), PublicKey: string(a.cert.Leaf.RawSubjectPublicKeyInfo)}
	if addr := got.conn.RemoteAddr(); addr != want {
		t.Errorf("remote address %v, want %v", addr, want)
	}
	want = Addr{ID: c.id, BootID: c.bootID(), PublicKey: string(c.cert.Leaf.RawSubjectPublicKeyInfo)}
	if addr := conn.RemoteAddr(); addr != want {
		t.Errorf("remote address of the dialer's end %v, want %v", addr, want)
	}
	if n := a.Sessions()[0].Streams; n != 0 {
		t.Errorf("%d forwarded connections, want none: a service is not forwarded", n)
	}
	_ = got.conn.Close()
}

func TestServiceIsFullDuplexAndHalfCloses(t *testing.T) {
	w := newWorld(t)
	at := make(chan served, 1)
	a, c := w.node("db", "a", 1), w.node(CoordinatorGroup, "coordinator-0", 2, withService(at))
	connect(a, c, nil, nil)
	conn := a.dialService(t, c, servedPort)
	far := (<-at).conn
	msg := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var wg sync.WaitGroup
	for _, end := range []net.Conn{conn, far} {
		wg.Go(func() {
			if _, err := end.Write(msg); err != nil {
				t.Errorf("write: %v", err)
			}
			if err := end.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Errorf("half-close: %v", err)
			}
			if _, err := end.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("write after the half-close: %v, want %v", err, net.ErrClosed)
			}
		})
		wg.Go(func() {
			if got, err := io.ReadAll(end); err != nil || !bytes.Equal(got, msg) {
				t.Errorf("read %d bytes, error %v, want %d", len(got), err, len(msg))
			}
		})
	}
	wg.Wait()
	for _, end := range []net.Conn{conn, far} {
		if err := end.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// The written data arrives although Close follows at once and the far side still sends.
func TestCloseOfAServiceTakesNothingBack(t *testing.T) {
	w := newWorld(t)
	at := make(chan served, 1)
	a, c := w.node("db", "a", 1), w.node(CoordinatorGroup, "coordinator-0", 2, withService(at))
	connect(a, c, nil, nil)
	conn := a.dialService(t, c, servedPort)
	far := (<-at).conn
	if _, err := far.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	msg := bytes.Repeat([]byte("x"), 200_000)
	if _, err := conn.Write(msg); err != nil {
		t.Fatal(err)
	}
	reading := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, conn); reading <- err }()
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-reading; !errors.Is(err, net.ErrClosed) {
		t.Errorf("read that Close ended: %v, want %v", err, net.ErrClosed)
	}
	if got, err := io.ReadAll(far); err != nil || len(got) != len(msg) {
		t.Errorf("read %d bytes, error %v, want %d", len(got), err, len(msg))
	}
	_ = far.Close()
	eventually(t, "both ends let go", func() bool {
		for _, n := range []*testNode{a, c} {
			for _, l := range n.all() {
				if s, _, err := l.Used(); err != nil || l.Carries(s) != 0 {
					return false
				}
			}
		}
		return true
	})
}

func TestServiceDeadlines(t *testing.T) {
	w := newWorld(t)
	at := make(chan served, 1)
	a, c := w.node("db", "a", 1), w.node(CoordinatorGroup, "coordinator-0", 2, withService(at))
	connect(a, c, nil, nil)
	conn := a.dialService(t, c, servedPort)
	far := (<-at).conn
	defer func() { _ = far.Close() }()
	_ = conn.SetReadDeadline(time.Unix(1, 0))
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("read past the deadline: %v, want %v", err, os.ErrDeadlineExceeded)
	}
	_ = conn.SetReadDeadline(time.Time{})
	if _, err := far.Write([]byte("y")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Errorf("read after the deadline was taken back: %v", err)
	}
}

func TestPortThatIsNotServedIsRefused(t *testing.T) {
	w := newWorld(t)
	at := make(chan served, 1)
	a, c := w.node("db", "a", 1), w.node(CoordinatorGroup, "coordinator-0", 2, withService(at))
	connect(a, c, nil, nil)
	if conn, err := a.DialService(t.Context(), c.id, servedPort+1); !errors.Is(err, ErrRefused) {
		t.Errorf("dial of a port that is not served: %v, error %v, want %v", conn, err, ErrRefused)
	}
	// The worker does not serve the coordinator's port either.
	if conn, err := c.DialService(t.Context(), a.id, servedPort); !errors.Is(err, ErrRefused) {
		t.Errorf("dial of a node without services: %v, error %v, want %v", conn, err, ErrRefused)
	}
	unknown := ID{Cluster: testCluster, Group: "db", Slot: "nobody"}
	if _, err := a.DialService(t.Context(), unknown, servedPort); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("dial of an unknown peer: %v, want %v", err, ErrUnknownPeer)
	}
}

// A port of the node's own is not forwarded, even if the map opens it.
func TestServiceWinsOverForwarding(t *testing.T) {
	w := newWorld(t)
	at := make(chan served, 1)
	a := w.node("db", "a", 1)
	c := w.node(CoordinatorGroup, "coordinator-0", 2)
	ln, port := c.listen(t)
	serveEach(t, ln, func(*net.TCPConn) { t.Error("the workload was reached") })
	c.stop()
	w.start(c, func(cfg *Config) {
		cfg.Serve = map[uint16]func(context.Context, Peer, net.Conn){
			port: func(ctx context.Context, p Peer, conn net.Conn) { at <- served{ctx, p, conn} },
		}
	})
	connect(a, c, tcpPort(port), nil)
	conn := a.dial(t, c, port)
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	far := (<-at).conn
	if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	_ = far.Close()
}

// A dial waits for a Session, as long as its context does.
func TestDialServiceWaitsForASession(t *testing.T) {
	w := newWorld(t)
	at := make(chan served, 1)
	a, c := w.node("db", "a", 1), w.node(CoordinatorGroup, "coordinator-0", 2, withService(at))
	absent := a.sees(c, nil, nil)
	absent.InstanceID = ""
	a.SetPeers([]Peer{absent})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("waited enough")
	cancel(enough)
	if _, err := a.DialService(ctx, c.id, servedPort); !errors.Is(err, ErrNoSession) || !errors.Is(err, enough) {
		t.Errorf("dial without a session: %v, want %v and %v", err, ErrNoSession, enough)
	}
	type dialed struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialed, 1)
	go func() {
		conn, err := a.DialService(t.Context(), c.id, servedPort)
		done <- dialed{conn, err}
	}()
	eventually(t, "a dial that waits", func() bool { return a.all()[0].Waiting() == 1 })
	connect(a, c, nil, nil)
	d := <-done
	if d.err != nil {
		t.Fatal(d.err)
	}
	_ = d.conn.Close()
	_ = (<-at).conn.Close()
	// A dial that waits for a Peer ends when that Peer leaves the map.
	a.SetPeers([]Peer{absent})
	go func() {
		conn, err := a.DialService(t.Context(), c.id, servedPort)
		done <- dialed{conn, err}
	}()
	w.gw.kill()
	eventually(t, "another dial that waits", func() bool { return len(done) > 0 || a.all()[0].Waiting() == 1 })
	a.SetPeers(nil)
	if d := <-done; d.err == nil {
		_ = d.conn.Close()
	}
}

// A service's context, and the connection, end with the Session, on both sides.
func TestServiceEndsWithItsSession(t *testing.T) {
	for _, end := range []string{"gateway resets", "coordinator stops", "caller is evicted"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t)
			at := make(chan served, 1)
			a, c := w.node("db", "a", 1), w.node(CoordinatorGroup, "coordinator-0", 2, withService(at))
			connect(a, c, nil, nil)
			conn := a.dialService(t, c, servedPort)
			got := <-at
			switch end {
			case "gateway resets":
				w.gw.kill()
			case "coordinator stops":
				c.stop()
			case "caller is evicted":
				c.SetPeers(nil)
			}
			<-got.ctx.Done()
			if err := context.Cause(got.ctx); !errors.Is(err, carrier.ErrClosed) && end != "coordinator stops" {
				t.Errorf("the service's context ended with %v, want %v", err, carrier.ErrClosed)
			}
			for name, c := range map[string]net.Conn{"caller": conn, "service": got.conn} {
				if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
					t.Errorf("read of the %s: %v, want an error that is no end", name, err)
				}
				if _, err := c.Write(make([]byte, 1)); err == nil {
					t.Errorf("write of the %s succeeded", name)
				}
				_ = c.Close()
			}
		})
	}
}

// The connections of a silent coordinator end with it, and a dial made meanwhile reaches
// the restarted coordinator.
func TestDialServiceOutlivesACoordinator(t *testing.T) {
	w := newWorld(t)
	at := make(chan served, 4)
	a, c := w.node("db", "a", 1), w.node(CoordinatorGroup, "coordinator-0", 2, withService(at))
	connect(a, c, nil, nil)
	conn := a.dialService(t, c, servedPort)
	<-at
	c.stop()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("read of a connection to a coordinator that is gone succeeded")
	}
	done := make(chan error, 1)
	go func() {
		conn, err := a.DialService(t.Context(), c.id, servedPort)
		if err == nil {
			_ = conn.Close()
		}
		done <- err
	}()
	c.cert = w.ca.issue(t, []string{c.id.String()})
	w.start(c, withService(at))
	connect(a, c, nil, nil)
	if err := <-done; err != nil {
		t.Errorf("dial while the coordinator was away: %v", err)
	}
	_ = (<-at).conn.Close()
}

func TestServiceConfigIsChecked(t *testing.T) {
	for name, serve := range map[string]map[uint16]func(context.Context, Peer, net.Conn){
		"port 0":      {0: func(context.Context, Peer, net.Conn) {}},
		"no function": {servedPort: nil},
	} {
		cfg := Config{Self: ID{Cluster: testCluster, Group: "db", Slot: "a"}, Gateway: Gateway{Domain: "gw.test"}, Serve: serve}
		cfg.SelfVIP = (&testNode{}).vip(&testNode{})
		if _, err := New(cfg); err == nil || !bytes.Contains([]byte(err.Error()), []byte("serve: port")) {
			t.Errorf("%s: got %v, want an error that names serve", name, err)
		}
	}
}

func TestIdleTimeIsChecked(t *testing.T) {
	cfg := Config{Self: ID{Cluster: testCluster, Group: "db", Slot: "a"}, Gateway: Gateway{Domain: "gw.test"}, IdleTime: -1}
	cfg.SelfVIP = (&testNode{}).vip(&testNode{})
	if _, err := New(cfg); err == nil || !bytes.Contains([]byte(err.Error()), []byte("idle time")) {
		t.Errorf("got %v, want an error that names the idle time", err)
	}
}

// recorder records the addresses that it was asked to listen on.
type recorder struct {
	net.ListenConfig
	mu    sync.Mutex
	asked map[string]bool
}

func (r *recorder) note(network, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = map[string]bool{}
	}
	r.asked[network+" "+address] = true
}

func (r *recorder) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	r.note(network, address)
	return r.ListenConfig.Listen(ctx, network, address)
}

func (r *recorder) ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error) {
	r.note(network, address)
	return r.ListenConfig.ListenPacket(ctx, network, address)
}

func TestEverySocketComesFromTheListener(t *testing.T) {
	w := newWorld(t)
	r := &recorder{}
	a := w.node("db", "a", 1, func(c *Config) {
		c.Listener = r
		c.Rendezvous = []Rendezvous{{URL: "https://127.0.0.1:1"}}
	})
	b := w.node("db", "b", 2)
	ln, port := b.listen(t)
	serveEach(t, ln, echo)
	connect(a, b, append(tcpPort(port), udpPort(port)...), nil)
	roundTrip(t, a.dial(t, b, port), []byte("hello"))
	at := netip.AddrPortFrom(a.vip(b), port).String()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, want := range []string{"tcp 127.0.0.1:0", "udp4 0.0.0.0:0", "tcp " + at, "udp " + at} {
		if !r.asked[want] {
			t.Errorf("the listener was not asked for %q: %v", want, r.asked)
		}
	}
}
