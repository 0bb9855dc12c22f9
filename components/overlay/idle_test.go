package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"cadre.dev/overlay/internal/forward"
)

// onDemand makes a worker that closes a Session after that long without use.
func onDemand(idle time.Duration) func(*Config) {
	return func(c *Config) {
		c.OnDemand = true
		c.IdleTime = idle
	}
}

// state is where n's Link with other stands.
func (n *testNode) state(other *testNode) SessionState {
	for _, s := range n.Sessions() {
		if s.Peer == other.id {
			return s.State
		}
	}
	return ""
}

// rest waits until neither side holds a Session.
func rest(t *testing.T, a, b *testNode) {
	t.Helper()
	eventually(t, "rest on both sides", func() bool {
		return a.state(b) == SessionIdle && b.state(a) == SessionIdle && a.held(b) == 0 && b.held(a) == 0
	})
}

// held is how many Sessions live.
func (n *testNode) held(other *testNode) int {
	return len(n.linkTo(other).View().Sessions)
}

// The apps of both sides connect, the first connection makes the Session, and the Session
// ends without use; again and again.
func TestSessionOnDemand(t *testing.T) {
	for _, from := range []string{"the side that dials", "the other side"} {
		t.Run(from, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.node("db", "a", 1, onDemand(100*time.Millisecond)), w.node("web", "b", 2, onDemand(100*time.Millisecond))
			lnA, portA := a.listen(t)
			serveEach(t, lnA, echo)
			lnB, portB := b.listen(t)
			serveEach(t, lnB, echo)
			connect(a, b, tcpPort(portB), tcpPort(portA))
			for range 3 {
				rest(t, a, b)
				conn := a.dial
				to, port := b, portB
				if from == "the other side" {
					conn, to, port = b.dial, a, portA
				}
				roundTrip(t, conn(t, to, port), []byte("hello"))
			}
			rest(t, a, b)
		})
	}
}

// A service and a ping make a Session as well.
func TestServiceAndPingOnDemand(t *testing.T) {
	w := newWorld(t)
	at := make(chan served, 1)
	a, b := w.node("db", "a", 1, onDemand(100*time.Millisecond)), w.node("web", "b", 2, onDemand(100*time.Millisecond), withService(at))
	connect(a, b, nil, nil)
	rest(t, a, b)
	conn := a.dialService(t, b, servedPort)
	far := (<-at).conn
	// A connection that carries nothing keeps the Session all the same.
	if got, err := a.Ping(t.Context(), b.id, 2); err != nil || len(got.Samples) != 2 {
		t.Errorf("ping: %+v, error %v", got, err)
	}
	if a.state(b) != SessionUp {
		t.Errorf("with a connection open the link is %s, want %s", a.state(b), SessionUp)
	}
	_ = conn.Close()
	_ = far.Close()
	rest(t, a, b)
	if got, err := b.Ping(t.Context(), a.id, 1); err != nil || got.Samples[0].Err != nil {
		t.Errorf("ping of a link that rests: %+v, error %v", got, err)
	}
}

// The first datagrams wait for the Session, and answers come back.
func TestDatagramsOnDemand(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, onDemand(time.Minute)), w.node("web", "b", 2, onDemand(time.Minute))
	server, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(b.vip(b), 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	port := uint16(server.LocalAddr().(*net.UDPAddr).Port)
	connect(a, b, udpPort(port), nil)
	if got := a.state(b); got != SessionIdle {
		t.Fatalf("before the first datagram the link is %s, want %s", got, SessionIdle)
	}
	app, err := net.Dial("udp", netip.AddrPortFrom(a.vip(b), port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	_ = server.SetReadDeadline(time.Now().Add(15 * time.Second))
	if _, err := app.Write([]byte("only one")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, from, err := server.ReadFromUDPAddrPort(buf)
	if err != nil || string(buf[:n]) != "only one" {
		t.Fatalf("the first datagram: %q, error %v", buf[:n], err)
	}
	if _, err := server.WriteToUDPAddrPort([]byte("answer"), from); err != nil {
		t.Fatal(err)
	}
	_ = app.SetReadDeadline(time.Now().Add(15 * time.Second))
	if n, err := app.Read(buf); err != nil || string(buf[:n]) != "answer" {
		t.Errorf("the answer: %q, error %v", buf[:n], err)
	}
}

// Both sides open connections all the time, with pauses around the idle time, so that many
// begin just when the Link goes to rest. None is refused or cut, and each carries its data.
func TestNoStreamIsLostAtTheIdleClose(t *testing.T) {
	const idle = 20 * time.Millisecond
	w := newWorld(t)
	// On a machine that stands still for a moment, no answer counts as late: a late side is
	// given up, with the streams that it opened meanwhile.
	patient := func(c *Config) { c.limits.hurryTime = time.Minute }
	a, b := w.node("db", "a", 1, onDemand(idle), patient), w.node("web", "b", 2, onDemand(idle), patient)
	lnA, portA := a.listen(t)
	serveEach(t, lnA, echo)
	lnB, portB := b.listen(t)
	serveEach(t, lnB, echo)
	connect(a, b, tcpPort(portB), tcpPort(portA))
	roundTrip(t, a.dial(t, b, portB), []byte("listens"))
	roundTrip(t, b.dial(t, a, portA), []byte("listens"))
	const rounds = 150
	var wg sync.WaitGroup
	for i, side := range []struct {
		from, to *testNode
		port     uint16
	}{{a, b, portB}, {b, a, portA}} {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for round := range rounds {
				pause := time.NewTimer(time.Duration(r.Int64N(int64(3 * idle))))
				<-pause.C
				msg := bytes.Repeat([]byte{byte(round)}, 1+r.IntN(20_000))
				if err := exchange(side.from.vip(side.to), side.port, msg); err != nil {
					t.Errorf("side %d, round %d: %v", i, round, err)
					return
				}
			}
		})
	}
	wg.Wait()
	sessions := a.maker.Made() + b.maker.Made()
	t.Logf("%d connections over %d ends of sessions", 2*rounds, sessions)
	rest(t, a, b)
}

// exchange opens a connection, writes, half-closes, and wants the same back.
func exchange(vip netip.Addr, port uint16, msg []byte) error {
	c, err := net.Dial("tcp", netip.AddrPortFrom(vip, port).String())
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(msg)
		if err == nil {
			err = c.(*net.TCPConn).CloseWrite()
		}
		wrote <- err
	}()
	got, err := io.ReadAll(c)
	if err = errors.Join(err, <-wrote); err == nil && !bytes.Equal(got, msg) {
		err = fmt.Errorf("%d bytes came back of %d", len(got), len(msg))
	}
	return err
}

// Where both sides' apps come at the same moment, both get through.
func TestBothSidesCallAtOnce(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, onDemand(50*time.Millisecond)), w.node("web", "b", 2, onDemand(50*time.Millisecond))
	lnA, portA := a.listen(t)
	serveEach(t, lnA, echo)
	lnB, portB := b.listen(t)
	serveEach(t, lnB, echo)
	connect(a, b, tcpPort(portB), tcpPort(portA))
	roundTrip(t, a.dial(t, b, portB), []byte("listens"))
	roundTrip(t, b.dial(t, a, portA), []byte("listens"))
	for range 20 {
		rest(t, a, b)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := exchange(a.vip(b), portB, []byte("from a")); err != nil {
				t.Errorf("from the side that dials: %v", err)
			}
		})
		wg.Go(func() {
			if err := exchange(b.vip(a), portA, []byte("from b")); err != nil {
				t.Errorf("from the other side: %v", err)
			}
		})
		wg.Wait()
	}
}

// A side that keeps its Session, since its map is an older one, can make it, and is
// not left.
func TestPeerThatMindsKeepsTheSession(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, onDemand(time.Minute)), w.node("db", "b", 2, onDemand(time.Minute))
	ln, port := a.listen(t)
	serveEach(t, ln, echo)
	crowd := []Peer{a.sees(b, nil, tcpPort(port))}
	for i := range WarmGroup {
		absent := crowd[0]
		absent.ID.Slot, absent.VIP = fmt.Sprintf("z-%d", i), netip.AddrFrom4([4]byte{127, 50, a.net, byte(10 + i)})
		absent.BootID, absent.InstanceID = "", ""
		crowd = append(crowd, absent)
	}
	a.SetPeers(crowd) // a dials, but sees no need to
	b.SetPeers([]Peer{b.sees(a, tcpPort(port), nil)})
	roundTrip(t, b.dial(t, a, port), []byte("hello"))
	before := a.session(t, b)
	s, _, err := a.linkTo(b).Used()
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	defer st.Reset()
	if _, err := st.Write(askRest); err != nil {
		t.Fatal(err)
	}
	if err := forward.ReadReply(st); !errors.Is(err, ErrRefused) {
		t.Errorf("the peer that keeps it answers %v, want %v", err, ErrRefused)
	}
	if after := a.session(t, b); after.BootID != before.BootID || a.held(b) != 1 {
		t.Errorf("the session changed: %+v, was %+v", after, before)
	}
}

// A connection to a Peer that is not there is given up in bounded time, and so is the
// search for a Session.
func TestCallsOfAMissingPeerEnd(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, onDemand(50*time.Millisecond)), w.node("web", "b", 2, onDemand(50*time.Millisecond))
	connect(a, b, nil, nil)
	b.stop()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := a.DialService(ctx, b.id, servedPort)
		done <- err
	}()
	eventually(t, "a call", func() bool { return a.state(b) == SessionDialing || a.state(b) == SessionBackOff })
	cancel()
	if err := <-done; !errors.Is(err, ErrNoSession) {
		t.Errorf("dial of a peer that is gone: %v, want %v", err, ErrNoSession)
	}
	eventually(t, "the link to rest", func() bool { return a.state(b) == SessionIdle })
}

// A smaller map ends the Links of the removed Peers, and no other.
func TestMapShrinksWhileStreamsFlow(t *testing.T) {
	w := newWorld(t)
	a := w.node("db", "a", 1, onDemand(time.Minute))
	var (
		peers   []*testNode
		entries []Peer
		conns   []*net.TCPConn
	)
	for i := range 4 {
		p := w.node("web", fmt.Sprintf("web-%d", i), byte(2+i), onDemand(time.Minute))
		ln, port := p.listen(t)
		serveEach(t, ln, echo)
		p.SetPeers([]Peer{p.sees(a, nil, tcpPort(port))})
		peers = append(peers, p)
		entries = append(entries, a.sees(p, tcpPort(port), nil))
		a.SetPeers(entries)
		conn := a.dial(t, p, port)
		ping(t, conn)
		conns = append(conns, conn)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, c := range conns[2:] {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := c.Write([]byte{1}); err != nil {
					t.Errorf("write on a stream of a peer that stays: %v", err)
					return
				}
				if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
					t.Errorf("read on a stream of a peer that stays: %v", err)
					return
				}
			}
		})
	}
	for gone := range 2 {
		a.SetPeers(entries[gone+1:])
		wantReset(t, conns[gone])
		if got := len(a.Sessions()); got != 3-gone {
			t.Errorf("%d links, want %d", got, 3-gone)
		}
	}
	close(stop)
	wg.Wait()
	// The other side learns of it by the end of its Session and does not call again.
	eventually(t, "the end at the removed peers", func() bool { return peers[0].state(a) != SessionUp })
}
