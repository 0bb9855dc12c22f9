package overlay

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// detour has connections to n run through a gateway more.
func (w *world) detour(n *testNode) *splicer {
	w.t.Helper()
	g := newSplicer(w.t)
	g.route(n.instance, n.ListenAddr().String())
	w.gw.route(n.instance, g.Address())
	return g
}

// asked gives two nodes on demand. Their one Session is dead without a sign, and a has asked
// over it for its end. New Sessions can be made.
func asked(t *testing.T, w *world, ports []PortRef) (asks, other *testNode) {
	t.Helper()
	const idle = 2 * time.Second
	got := make(chan served, 1)
	a, peer := w.node("db", "a", 1, onDemand(idle)), w.node("web", "b", 2, onDemand(time.Minute), withService(got))
	way := w.detour(peer)
	connect(a, peer, ports, nil)
	conn := a.dialService(t, peer, servedPort)
	far := (<-got).conn
	_ = far.Close()
	_ = conn.Close()
	s, _, err := a.linkTo(peer).Used()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing on the session", func() bool { return a.linkTo(peer).Carries(s) == 0 })
	way.Pause()
	t.Cleanup(way.Cut)
	eventually(t, "the question", func() bool { return a.linkTo(peer).View().State.Asking() })
	w.gw.route(peer.instance, peer.ListenAddr().String())
	return a, peer
}

// TestACallerDuringAQuestionWaitsShortly: the Session over which the Peer is asked may
// be dead, and it takes ten seconds until that is known. An app does not wait for that.
func TestACallerDuringAQuestionWaitsShortly(t *testing.T) {
	w := newWorld(t)
	a, b := asked(t, w, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	conn, err := a.DialService(ctx, b.id, servedPort)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// TestALoneDatagramWaitsOutAQuestion: nothing else comes that would make a Session.
func TestALoneDatagramWaitsOutAQuestion(t *testing.T) {
	w := newWorld(t)
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 50, byte(nextNet.Load()+2), 2)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	port := uint16(server.LocalAddr().(*net.UDPAddr).Port)
	a, b := asked(t, w, udpPort(port))
	if at := server.LocalAddr().(*net.UDPAddr).AddrPort().Addr(); at != b.vip(b) {
		t.Fatalf("the server is at %v, and b at %v", at, b.vip(b))
	}
	app, err := net.Dial("udp", netip.AddrPortFrom(a.vip(b), port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	if _, err := app.Write([]byte("only one")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a datagram that waits", func() bool { return a.linkTo(b).Wants() })
	_ = server.SetReadDeadline(time.Now().Add(15 * time.Second))
	buf := make([]byte, 64)
	if n, _, err := server.ReadFromUDPAddrPort(buf); err != nil || string(buf[:n]) != "only one" {
		t.Errorf("%q, error %v", buf[:n], err)
	}
}

// The direct Session is not used any more. Behind a gateway that accepts connections and
// stays silent, one dial follows the other. The Link rests when the first dial ends.
func TestALinkSleepsBehindADeadGateway(t *testing.T) {
	w := newWorld(t)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var dials atomic.Int32
	serveEach(t, dead, func(c *net.TCPConn) {
		dials.Add(1)
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		for buf := make([]byte, 1024); ; {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	})
	got := make(chan served, 1)
	demand := onDemand(500 * time.Millisecond)
	a, b := w.node("db", "a", 1, demand, func(c *Config) { c.limits.dialTime = 3250 * time.Millisecond }), w.node("web", "b", 2, demand, withService(got))
	w.gw.route(b.instance, dead.Addr().String())
	connect(a, b, nil, nil)
	opened := make(chan net.Conn, 1)
	go func() {
		conn, err := a.DialService(t.Context(), b.id, servedPort)
		if err != nil {
			t.Error(err)
		}
		opened <- conn
	}()
	eventually(t, "a dial", func() bool { return dials.Load() == 1 })
	direct(t, a, b)
	conn, far := <-opened, (<-got).conn
	if conn == nil {
		t.FailNow()
	}
	_ = conn.Close()
	_ = far.Close()
	rest(t, a, b)
	if n := dials.Load(); n != 1 {
		t.Errorf("the link rests after %d dials, want the first", n)
	}
}

// TestNoSideSleepsWhileASessionIsMade over a path that was found: the Peer may use it already.
func TestNoSideSleepsWhileASessionIsMade(t *testing.T) {
	for _, making := range []string{"the side that dials", "the other side"} {
		t.Run(making, func(t *testing.T) {
			const idle = 100 * time.Millisecond
			w := newWorld(t)
			got := make(chan served, 1)
			a, b := w.node("db", "a", 1, onDemand(idle)), w.node("web", "b", 2, onDemand(idle), withService(got))
			connect(a, b, nil, nil)
			maker := a.linkTo(b)
			if making == "the other side" {
				maker = b.linkTo(a)
			}
			made := maker.Making()
			conn := a.dialService(t, b, servedPort)
			_ = (<-got).conn.Close()
			_ = conn.Close()
			before := a.session(t, b)
			<-time.After(10 * idle)
			if after := a.session(t, b); after.Since != before.Since || a.held(b) != 1 {
				t.Errorf("the session changed: %+v, was %+v", after, before)
			}
			made()
			rest(t, a, b)
		})
	}
}
