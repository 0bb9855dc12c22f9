package overlay

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"cadre.dev/overlay/internal/admission"
	"cadre.dev/overlay/internal/identity"
	"github.com/hashicorp/yamux"
)

// withAdmission makes a node serve first contact.
func withAdmission(f func(context.Context, net.Conn, tls.ConnectionState)) func(*Config) {
	return func(c *Config) { c.ServeAdmission = f }
}

func TestFirstContact(t *testing.T) {
	w := newWorld(t)
	type seen struct {
		boot     string
		exporter []byte
	}
	got := make(chan seen, 1)
	c := w.node(CoordinatorGroup, "coordinator-0", 1, withAdmission(
		func(_ context.Context, conn net.Conn, state tls.ConnectionState) {
			x, err := state.ExportKeyingMaterial(AdmissionExporter, nil, 32)
			if err != nil {
				t.Error(err)
			}
			got <- seen{BootID(state.PeerCertificates[0]), x}
			_, _ = io.CopyN(conn, conn, 5)
		}))
	boot := bootCert(t)
	conn, err := DialAdmission(t.Context(), w.gw.gateway(), w.gw.gateway().Name(c.instance), boot)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "hello" {
		t.Fatalf("answer %q, error %v", answer, err)
	}
	s := <-got
	if want := BootID(boot.Leaf); s.boot != want {
		t.Errorf("server saw boot %s, want %s", s.boot, want)
	}
	state := conn.State()
	x, err := state.ExportKeyingMaterial(AdmissionExporter, nil, 32)
	if err != nil || !bytes.Equal(x, s.exporter) {
		t.Errorf("exporters differ: %x and %x, error %v", x, s.exporter, err)
	}
	if want := c.bootID(); BootID(state.PeerCertificates[0]) != want {
		t.Error("client does not see the coordinator's certificate")
	}
}

func TestFirstContactOpensNothingElse_OVL06(t *testing.T) {
	w := newWorld(t)
	c := w.node(CoordinatorGroup, "coordinator-0", 1, withAdmission(
		func(ctx context.Context, conn net.Conn, _ tls.ConnectionState) { _, _ = io.Copy(conn, conn) }))
	boot := bootCert(t)
	if code, err := knock(t, c, boot); err == nil {
		t.Errorf("an unadmitted boot was greeted with %v as a peer", code)
	}
	conn, err := w.gw.gateway().DialTLS(t.Context(), w.gw.gateway().Name(c.instance),
		identity.AdmissionClient(boot, w.gw.gateway().Name(c.instance)))
	if err != nil {
		t.Fatal(err)
	}
	mux, err := yamux.Client(conn, admission.Mux(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer mux.Close()
	first, err := mux.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
		t.Fatalf("the one stream: %v", err)
	}
	// A caller that ignores the GoAway is reset.
	second, err := mux.OpenStream()
	if err != nil {
		return // our own side has heard of it already
	}
	_ = second.SetDeadline(time.Now().Add(15 * time.Second))
	_, _ = second.Write([]byte("x"))
	if _, err := second.Read(make([]byte, 1)); err == nil || errors.Is(err, yamux.ErrTimeout) {
		t.Errorf("a second stream is not refused: %v", err)
	}
}

func TestFirstContactNeedsABootCertificate(t *testing.T) {
	w := newWorld(t)
	c := w.node(CoordinatorGroup, "coordinator-0", 1, withAdmission(
		func(context.Context, net.Conn, tls.ConnectionState) { t.Error("served") }))
	forged := bootCert(t)
	forged.Certificate[0] = bytes.Clone(forged.Certificate[0])
	forged.Certificate[0][len(forged.Certificate[0])-1] ^= 1
	for name, cert := range map[string]tls.Certificate{
		"signed by a CA":      w.ca.issue(t, []string{"spiffe://test.cadre/db/a"}),
		"signature is broken": forged,
		"none":                {},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := knock(t, c, cert, func(c *tls.Config) {
				c.NextProtos = []string{identity.ALPNAdmission}
				if cert.Certificate == nil {
					c.Certificates = nil
				}
			})
			if err == nil {
				t.Error("let in")
			}
		})
	}
}

func TestFirstContactsAreBounded_INP04_INP05(t *testing.T) {
	w := newWorld(t)
	cancelled := make(chan struct{}, 8)
	c := w.node(CoordinatorGroup, "coordinator-0", 1,
		withAdmission(func(ctx context.Context, conn net.Conn, _ tls.ConnectionState) {
			<-ctx.Done()
			cancelled <- struct{}{}
		}),
		func(c *Config) {
			c.limits.admissions, c.limits.admissionTime, c.limits.lined, c.limits.lineTime = 2, time.Second, 1, time.Millisecond
		})
	for range 6 {
		conn, err := DialAdmission(t.Context(), w.gw.gateway(), w.gw.gateway().Name(c.instance), bootCert(t))
		if err == nil {
			defer conn.Close()
		}
	}
	eventually(t, "the rest turned away", func() bool { return c.Stats().Overloaded >= 4 })
	if n := c.Stats().Admissions; n != 2 {
		t.Errorf("%d first contacts served, want 2", n)
	}
	<-cancelled // their time is up
	<-cancelled
}

// A caller without a place gets the next free one, and a caller that finds the line full
// is rejected.
func TestFirstContactsWaitInLine_INP04(t *testing.T) {
	w := newWorld(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	c := w.node(CoordinatorGroup, "coordinator-0", 1,
		withAdmission(func(ctx context.Context, _ net.Conn, _ tls.ConnectionState) {
			select {
			case entered <- struct{}{}:
			case <-ctx.Done():
				return
			}
			select {
			case <-leave:
			case <-ctx.Done():
			}
		}),
		func(c *Config) { c.limits.admissions, c.limits.lined, c.limits.lineTime = 1, 2, time.Minute })
	dial := func() *AdmissionConn {
		t.Helper()
		conn, err := DialAdmission(t.Context(), w.gw.gateway(), w.gw.gateway().Name(c.instance), bootCert(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	conns := []*AdmissionConn{dial()}
	<-entered
	for range 2 {
		conns = append(conns, dial())
	}
	eventually(t, "two in line", func() bool { return c.first.Waiting() == 2 })
	if conn, err := DialAdmission(t.Context(), w.gw.gateway(), w.gw.gateway().Name(c.instance), bootCert(t)); err == nil {
		defer conn.Close()
	}
	eventually(t, "the fourth turned away", func() bool { return c.Stats().Overloaded == 1 })
	for i, conn := range conns {
		if i > 0 {
			<-entered
		}
		leave <- struct{}{}
		conn.Close()
	}
	if got := c.Stats(); got.Admissions != 3 || got.Overloaded != 1 {
		t.Errorf("%d served, %d turned away, want 3 and 1", got.Admissions, got.Overloaded)
	}
}

// Three kinds of silent callers take no place from others: callers that send nothing,
// callers that send one message, and callers that do not even start TLS.
func TestSilentCallersBlockNoOther_INP06(t *testing.T) {
	w := newWorld(t)
	c := w.node(CoordinatorGroup, "coordinator-0", 1, withAdmission(
		func(ctx context.Context, conn net.Conn, _ tls.ConnectionState) {
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			_, _ = io.Copy(conn, conn)
		}),
		func(c *Config) {
			c.limits.admissions, c.limits.handshakes = 4, 4
			c.limits.handshakePatience, c.limits.silentPatience, c.limits.exchangePatience = time.Millisecond, 20*time.Millisecond, 100*time.Millisecond
		})
	knockOn := func() (*AdmissionConn, error) {
		return DialAdmission(t.Context(), w.gw.gateway(), w.gw.gateway().Name(c.instance), bootCert(t))
	}
	for i := range 24 {
		switch i % 3 {
		case 0:
			mute, err := net.Dial("tcp", c.ListenAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer mute.Close()
		default:
			conn, err := knockOn()
			if err != nil {
				continue // turned away: there is a flood
			}
			defer conn.Close()
			if i%3 == 1 {
				_, _ = conn.Write([]byte("x"))
			}
		}
	}
	eventually(t, "an honest contact", func() bool {
		conn, err := knockOn()
		if err != nil {
			return false
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := fmt.Fprint(conn, "hello"); err != nil {
			return false
		}
		_, err = io.ReadFull(conn, make([]byte, 5))
		return err == nil
	})
}

func TestVerifyBootKeyKinds(t *testing.T) {
	if err := identity.VerifyBoot(tls.ConnectionState{Version: tls.VersionTLS13,
		PeerCertificates: []*x509.Certificate{bootCert(t).Leaf}}); err != nil {
		t.Errorf("P-256: %v", err)
	}
	if err := identity.VerifyBoot(tls.ConnectionState{Version: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
}
