package rendezvous

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/logging"
	"github.com/pion/turn/v3"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/mailbox"
)

// allocation is a relay allocation of a client.
type allocation struct {
	t      testing.TB
	server string
	ice    mailbox.ICEServer
	net.PacketConn
	close func()
	// over is the way to the server; nil means a UDP socket of its own.
	over net.PacketConn
}

// allocate makes an allocation over UDP with the credentials given.
func allocate(t testing.TB, s *box, offers []mailbox.ICEServer) *allocation {
	t.Helper()
	for _, o := range offers {
		if strings.HasSuffix(o.URL, "transport=udp") {
			a := &allocation{t: t, server: s.STUN()[0], ice: o}
			if err := a.open(); err != nil {
				t.Fatal(err)
			}
			return a
		}
	}
	t.Fatal("no TURN server was offered")
	return nil
}

func (a *allocation) open() error {
	conn := a.over
	if conn == nil {
		var err error
		if conn, err = net.ListenPacket("udp4", "127.0.0.1:0"); err != nil {
			return err
		}
	}
	log := logging.NewDefaultLoggerFactory()
	log.DefaultLogLevel = logging.LogLevelDisabled
	c, err := turn.NewClient(&turn.ClientConfig{
		TURNServerAddr: a.server, Username: a.ice.Username, Password: a.ice.Password, Conn: conn, LoggerFactory: log,
	})
	if err != nil {
		conn.Close()
		return err
	}
	stop := sync.OnceFunc(func() {
		c.Close()
		conn.Close()
	})
	if err := c.Listen(); err != nil {
		stop()
		return err
	}
	relayed, err := c.Allocate()
	if err != nil {
		stop()
		return err
	}
	a.PacketConn = relayed
	a.close = sync.OnceFunc(func() {
		relayed.Close()
		stop()
	})
	a.t.Cleanup(a.close)
	return nil
}

// A member relays by the port of the mailboxes, and a client that does not ask for TURN
// gets HTTP there.
func TestTURNOverTLS(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	a := w.node("db", "a", s)
	a.connected(t, 1)
	at := s.Addr().String()
	offers := a.ICEServers()
	i := slices.IndexFunc(offers, func(o mailbox.ICEServer) bool { return o.URL == "turns:"+at+"?transport=tcp" })
	if i < 0 {
		t.Fatalf("no TURN over TLS at %s in %v", at, offers)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA())
	dial := func(alpn ...string) *tls.Conn {
		conn, err := tls.Dial("tcp", at, &tls.Config{RootCAs: roots, NextProtos: alpn, MinVersion: tls.VersionTLS13})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	conn := dial(identity.ALPNRelay)
	over := &allocation{t: t, server: s.STUN()[0], ice: offers[i], over: turn.NewSTUNConn(conn)}
	if err := over.open(); err != nil {
		t.Fatalf("allocate over TLS: %v", err)
	}
	peer := allocate(t, s, offers)
	if _, err := over.WriteTo([]byte("by TLS"), peer.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.WriteTo([]byte("allow"), over.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	_ = peer.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := over.WriteTo([]byte("by TLS"), peer.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	if n, _, err := peer.ReadFrom(buf); err != nil || string(buf[:n]) != "by TLS" {
		t.Errorf("the peer got %q, %v", buf[:n], err)
	}
	over.close()
	_ = conn.Close()
	eventually(t, "connection forgotten", func() bool { return s.relay.Connections() == 0 })

	plain := dial()
	if _, err := plain.Write([]byte("GET /healthz HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := plain.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.") {
		t.Errorf("without TURN's ALPN: %q, %v", buf[:n], err)
	}
}

// again tries another allocation with the same credentials.
func (a *allocation) again() error {
	b := &allocation{t: a.t, server: a.server, ice: a.ice}
	err := b.open()
	if err == nil {
		b.close()
	}
	return err
}
