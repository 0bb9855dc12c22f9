package overlay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/session"
)

// knock connects to a node with a certificate and an ALPN, as an attacker may,
// and gives the greeting.
func knock(t *testing.T, n *testNode, cert tls.Certificate, change ...func(*tls.Config)) (frame.Code, error) {
	t.Helper()
	cfg := &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{identity.ALPNOverlay},
		Certificates: []tls.Certificate{cert},
	}
	for _, c := range change {
		c(cfg)
	}
	d := tls.Dialer{Config: cfg}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", n.ListenAddr().String())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return frame.ReadGreeting(conn)
}

func TestAcceptedCallers_OVL05(t *testing.T) {
	w := newWorld(t)
	impatient := func(c *Config) { c.limits.parkTime = time.Millisecond }
	a, b := w.node("db", "a", 1), w.node("db", "b", 2, impatient)
	b.SetPeers([]Peer{b.sees(a, nil, nil)})
	other := newAuthority(t)
	name := a.id.String()

	for _, c := range []struct {
		name   string
		cert   tls.Certificate
		change func(*tls.Config)
		want   frame.Code // 0: the handshake itself must fail
	}{
		{"the admitted boot", a.cert, nil, frame.Accepted},
		{"wrong CA", other.issue(t, []string{name}), nil, 0},
		{"self-signed", bootCert(t), nil, 0},
		{"two URI names", w.ca.issue(t, []string{name, "spiffe://test.cadre/db/c"}), nil, 0},
		{"no URI name", w.ca.issue(t, nil), nil, 0},
		{"other trust domain", w.ca.issue(t, []string{"spiffe://other.cadre/db/a"}), nil, 0},
		{"name outside the grammar", w.ca.issue(t, []string{"spiffe://test.cadre/db/a/x"}), nil, 0},
		{"expired", w.ca.issue(t, []string{name}, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}), nil, 0},
		{"not yet valid", w.ca.issue(t, []string{name}, func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(time.Hour)
		}), nil, 0},
		{"server certificate as client", w.ca.issue(t, []string{name}, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), nil, 0},
		{"a CA's certificate", w.ca.issue(t, []string{name}, func(c *x509.Certificate) { c.IsCA = true }), nil, 0},
		{"unknown peer", w.ca.issue(t, []string{"spiffe://test.cadre/db/c"}), nil, frame.PeerNotAdmitted},
		{"old boot", w.ca.issue(t, []string{name}), nil, frame.PeerNotAdmitted},
		{"no certificate", tls.Certificate{}, func(c *tls.Config) { c.Certificates = nil }, 0},
		{"TLS 1.2", a.cert, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, 0},
		{"no ALPN", a.cert, func(c *tls.Config) { c.NextProtos = nil }, 0},
		{"unknown ALPN", a.cert, func(c *tls.Config) { c.NextProtos = []string{"h2"} }, 0},
		{"two ALPNs", a.cert, func(c *tls.Config) {
			c.NextProtos = []string{identity.ALPNOverlay, identity.ALPNAdmission}
		}, 0},
		{"first contact where there is none", bootCert(t), func(c *tls.Config) {
			c.NextProtos = []string{identity.ALPNAdmission}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change == nil {
				c.change = func(*tls.Config) {}
			}
			got, err := knock(t, b, c.cert, c.change)
			if got != c.want || (c.want == 0) != (err != nil) {
				t.Errorf("got %v, error %v; want %v", got, err, c.want)
			}
		})
	}
}

// The dialer, too, accepts only the Peer that it dials.
func TestDialerVerifiesThePeer_OVL05(t *testing.T) {
	w := newWorld(t)
	other := newAuthority(t)
	for _, c := range []struct {
		name string
		cert func(b *testNode) tls.Certificate
		want error
	}{
		{"wrong CA", func(b *testNode) tls.Certificate { return other.issue(t, []string{b.id.String()}) }, identity.ErrUntrusted},
		{"another peer", func(b *testNode) tls.Certificate {
			return w.ca.issue(t, []string{"spiffe://test.cadre/db/c"})
		}, identity.ErrMismatch},
		{"another boot", func(b *testNode) tls.Certificate { return w.ca.issue(t, []string{b.id.String()}) }, identity.ErrMismatch},
		{"client certificate as server", func(b *testNode) tls.Certificate {
			return w.ca.issue(t, []string{b.id.String()}, func(c *x509.Certificate) {
				c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			})
		}, identity.ErrUntrusted},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := w.node("db", "a", 1), w.node("db", "b", 2)
			b.SetCredentials(Credentials{Certificate: c.cert(b), Roots: w.ca.Pool})
			b.SetPeers([]Peer{b.sees(a, nil, nil)})
			_, err := a.maker.Dial(t.Context(), session.Target{ID: b.id, Boot: b.bootID()}, b.instance)
			if !errors.Is(err, c.want) {
				t.Errorf("dial: got %v, want %v", err, c.want)
			}
		})
	}
}

func TestGarbageAtTheListener(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	for _, junk := range []string{"", "\x00", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"} {
		conn, err := net.Dial("tcp", b.ListenAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(junk))
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
	}
	eventually(t, "failures counted", func() bool { return b.Stats().FailedHandshakes >= 5 })
	connect(a, b, nil, nil)
	a.session(t, b)
}

func TestUnauthenticatedCallersAreBounded_INP04(t *testing.T) {
	w := newWorld(t)
	few := func(c *Config) { c.limits.handshakes, c.limits.handshakeTime = 4, time.Second }
	a, b := w.node("db", "a", 1), w.node("db", "b", 2, few)
	var idle []net.Conn
	for range 16 {
		conn, err := net.Dial("tcp", b.ListenAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		idle = append(idle, conn)
	}
	eventually(t, "the rest turned away", func() bool { return b.Stats().Overloaded >= 12 })
	if n := b.acceptor.Inside(); n > 4 {
		t.Errorf("%d handshakes at once, want at most 4", n)
	}
	// None of them may stay, and honest peers get in after them.
	for _, c := range idle {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an idle unauthenticated caller was kept: %v", err)
		}
	}
	connect(a, b, nil, nil)
	a.session(t, b)
}
