package overlay

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// established opens a forwarded connection that is known to work.
func established(t *testing.T, w *world, a, b *testNode) (*net.TCPConn, uint16) {
	t.Helper()
	ln, port := b.listen(t)
	serveEach(t, ln, echo)
	connect(a, b, tcpPort(port), nil)
	conn := a.dial(t, b, port)
	ping(t, conn)
	return conn, port
}

func wantReset(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read ended with %v, want a reset", err)
	}
}

func TestReconnectAfterTheGatewayResets(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	conn, port := established(t, w, a, b)
	for round := range 3 {
		w.gw.kill()
		wantReset(t, conn)
		begin := time.Now()
		a.session(t, b)
		t.Logf("round %d: the way back took %v", round, time.Since(begin))
		conn = a.dial(t, b, port)
		ping(t, conn)
	}
}

func TestPeerRemovalClosesAtOnce_OVL15(t *testing.T) {
	for _, side := range []string{"opener", "receiver"} {
		t.Run("removed at the "+side, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.node("db", "a", 1), w.node("db", "b", 2)
			conn, port := established(t, w, a, b)
			if side == "opener" {
				a.SetPeers(nil)
				if c, err := net.Dial("tcp", netip.AddrPortFrom(a.vip(b), port).String()); err == nil {
					c.Close()
					t.Error("the removed peer's port still listens")
				}
			} else {
				b.SetPeers(nil)
			}
			wantReset(t, conn)
		})
	}
}

func TestPortRemovalResetsItsConnections_OVL15(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	conn, port := established(t, w, a, b)
	before := b.session(t, a)
	b.SetPeers([]Peer{b.sees(a, nil, nil)})
	wantReset(t, conn)
	wantReset(t, a.dial(t, b, port))
	if after := b.session(t, a); after.Since != before.Since {
		t.Error("the session itself should have stayed")
	}
}

func TestNewBootReplacesTheOldSession(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	conn, _ := established(t, w, a, b)
	old := a.bootID()

	// The new Boot of the same Slot comes up while the old one still runs.
	next := &testNode{id: a.id, net: a.net, host: a.host, instance: a.instance}
	next.cert = w.ca.issue(t, []string{a.id.String()})
	w.start(next)
	next.SetPeers([]Peer{next.sees(b, nil, nil)})
	b.SetPeers([]Peer{b.sees(next, nil, nil)})
	wantReset(t, conn)
	eventually(t, "session of the new boot", func() bool {
		return b.Sessions()[0].BootID == next.bootID()
	})
	// The old Boot is not let in again.
	eventually(t, "old boot turned away", func() bool {
		s := a.Sessions()[0]
		return s.State != SessionUp && b.Stats().NotAdmitted > 0
	})
	if got := b.Sessions()[0].BootID; got == old {
		t.Error("the old boot took its session back")
	}
}

// A Boot that dials before the map that admits it has arrived waits, and the map admits it.
func TestBootAheadOfTheMap(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	a.SetPeers([]Peer{a.sees(b, nil, nil)})
	eventually(t, "dialer waits for a newer map", func() bool { return b.current.Parked() == 1 })
	b.SetPeers([]Peer{b.sees(a, nil, nil)})
	a.session(t, b)
	if n := b.Stats().NotAdmitted; n != 0 {
		t.Errorf("%d refusals, want none", n)
	}
}

func TestRunningAgainAtOnce(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	connect(a, b, nil, nil)
	a.session(t, b)
	b.stop()
	eventually(t, "loss noticed", func() bool { return a.Sessions()[0].State != SessionUp })
	b.cert = w.ca.issue(t, []string{b.id.String()})
	w.start(b)
	begin := time.Now()
	connect(a, b, nil, nil)
	a.session(t, b)
	t.Logf("session with the new boot took %v after both maps were set", time.Since(begin))
}

func TestSetPeersIgnoresInvalidEntries(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	good := a.sees(b, nil, nil)
	foreign, noVIP, self := good, good, good
	foreign.ID.Cluster = "other.cadre"
	noVIP.ID.Slot, noVIP.VIP = "c", netip.Addr{}
	self.ID = a.id
	a.SetPeers([]Peer{foreign, noVIP, self, good})
	got := a.Sessions()
	if len(got) != 1 || got[0].Peer != b.id {
		t.Errorf("links: %s, want only %s", fmt.Sprint(got), b.id)
	}
}
