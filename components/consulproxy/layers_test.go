package consulproxy_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"cadre.dev/overlay"
)

// TestBothLayersRefuse who may not call, each without the other's help.
//
//	pg's Envoy  refuses other's certificate, where the overlay lets other through
//	the overlay refuses other's machine, where Envoy would take the certificate that it shows
//
// other has a Session with pg, for a port that has no route.
func TestBothLayersRefuse(t *testing.T) {
	l := newLayer(t, database(1, "web"), web(), other())
	server, pg := l.member("pg", 0, "leader")
	outsider, _ := l.member("other", 0, "none")
	caller, _ := l.member("web", 0, "none")
	mesh := l.mesh("web", 1, 2)
	proxy := l.mesh("pg", 1, 0).Proxies[0]
	l.answers(caller, address(mesh, "pg-master"), "pg-0")
	side, port := pg.vip.String()+":9000", fmt.Sprintf("%s:%d", pg.vip, proxy.Port)
	l.answers(outsider, side, "pg-0")
	good, bad := l.leaf("web"), l.leaf("other")

	// As it is, other has no port to dial.
	if who, err := outsider.request(port); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("other at the port of pg's proxy: %q, %v", who, err)
	}
	// The machine cannot take a port: its own map opens nothing at pg's machine.
	proxies := []overlay.PortRef{{Protocol: overlay.TCP, Port: uint16(proxy.Port)}}
	outsider.order("lie", lie{Slot: "pg-0", Offers: proxies})
	var refused error
	eventually(t, "the overlay of other listens", func() error {
		who, err := present(outsider, port, good)
		switch {
		case err == nil:
			t.Fatalf("%s answers other, which showed web's certificate", who)
		case errors.Is(err, errDialled):
			return err // its own map is not altered yet
		}
		refused = err
		return nil
	})
	t.Logf("the overlay to other, with a certificate that Envoy takes: %v", refused)
	if _, err := outsider.request(side); err != nil {
		t.Errorf("its Session is gone before the test's step: %v", err)
	}

	// pg's machine opens the port as well: now the certificate decides.
	server.order("lie", lie{Slot: "other-0", Accepts: proxies})
	eventually(t, "pg's machine opens the port", func() error {
		who, err := present(outsider, port, good)
		if err == nil && who != "pg-0" {
			err = fmt.Errorf("%s answers", who)
		}
		return err
	})
	before := l.denied(server)
	who, err := present(outsider, port, bad)
	if err == nil || errors.Is(err, errDialled) || errors.Is(err, errShown) {
		t.Fatalf("other's certificate at pg's Envoy: %q, %v; want its connection ended at its first byte", who, err)
	}
	t.Logf("Envoy to other's certificate, over an open overlay: %v", err)
	if after := l.denied(server); after <= before {
		t.Errorf("Envoy counts %d refusals, and before %d", after, before)
	}
	if who, err := present(outsider, port, tls.Certificate{}); err == nil {
		t.Errorf("%s answers a caller without a certificate", who)
	}

	// With an intention it is let through by both, from the specs alone.
	l.accept(database(1, "web", "other"))
	l.mesh("other", 1, 2)
	eventually(t, "other may call", func() error {
		_, err := present(outsider, port, bad)
		return err
	})
}

// leaf is the certificate that Consul gives a service's proxies.
func (l *layer) leaf(service string) (cert tls.Certificate) {
	l.t.Helper()
	eventually(l.t, "a certificate of "+service, func() error {
		leaf, _, err := l.admin(1).Agent().ConnectCALeaf(service, nil)
		if err == nil {
			cert, err = tls.X509KeyPair([]byte(leaf.CertPEM), []byte(leaf.PrivateKeyPEM))
		}
		return err
	})
	return cert
}

var (
	// errDialled: there was no connection to show a certificate on.
	errDialled = errors.New("not dialled")
	// errShown: the handshake failed.
	errShown = errors.New("no handshake")
)

// present returns the name of the member that answers at a proxy's port, with that
// certificate.
func present(m *machine, address string, cert tls.Certificate) (string, error) {
	plain, err := m.dial(address)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errDialled, err)
	}
	defer func() { _ = plain.Close() }()
	conn := tls.Client(plain, &tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	if cert.Certificate == nil {
		conn = tls.Client(plain, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	}
	if err := conn.Handshake(); err != nil {
		return "", fmt.Errorf("%w: %w", errShown, err)
	}
	who, err := answer(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", fmt.Errorf("it was neither answered nor ended: %w", err)
	}
	return who, err
}

// denied is how many connections the Envoy of pg refused by the intentions.
func (l *layer) denied(m *machine) (n int) {
	l.t.Helper()
	eventually(l.t, "the figures of pg's envoy", func() error {
		text, err := m.admin(backendProxy, "/stats?filter=rbac.denied")
		if err != nil {
			return err
		}
		_, figure, found := strings.Cut(strings.TrimSpace(text), "rbac.denied: ")
		if !found {
			return fmt.Errorf("they are %q", text)
		}
		_, err = fmt.Sscan(figure, &n)
		return err
	})
	return n
}
