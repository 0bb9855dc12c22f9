package ice

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/pion/turn/v3"
)

// newTLSRelay is a TURN server over TLS, with the roots that verify it.
func newTLSRelay(t *testing.T) (string, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp4", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := turn.NewServer(turn.ServerConfig{
		Realm: "test", LoggerFactory: iceLog{log: slog.New(slog.DiscardHandler)},
		AuthHandler: func(user, realm string, _ net.Addr) ([]byte, bool) {
			return turn.GenerateAuthKey(user, realm, testPass), true
		},
		ListenerConfigs: []turn.ListenerConfig{{
			Listener:              ln,
			RelayAddressGenerator: &turn.RelayAddressGeneratorStatic{RelayAddress: net.IPv4(127, 0, 0, 1), Address: "127.0.0.1"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return ln.Addr().String(), roots
}

func TestRelayOverTLS(t *testing.T) {
	addr, roots := newTLSRelay(t)
	conf := func(controlling bool, roots *x509.CertPool) Config {
		return Config{
			Controlling: controlling, RelayOnly: true, AllowLoopback: true, Roots: roots,
			Servers: []Server{{URL: fmt.Sprintf("turns:%s?transport=tcp", addr), Username: testUser, Password: testPass}},
		}
	}
	a, b := begin(t, conf(true, roots)), begin(t, conf(false, roots))
	introduce(t, a, b)
	fa, fb := wait(t, a), wait(t, b)
	exchange(t, fa.Relay, fb.Relay)

	untrusted := begin(t, conf(true, x509.NewCertPool()))
	for line := range untrusted.Candidates() {
		t.Errorf("a relay with an untrusted certificate offered %q", line)
	}
}

func TestServersAreChecked(t *testing.T) {
	for _, bad := range []Server{
		{URL: "turn:203.0.113.1:3478"}, {URL: "turn:h:1", Username: "u"}, {URL: "http://h"}, {URL: ""},
		{URL: "turns:h:1?transport=udp", Username: "u", Password: "p"}, {URL: "stuns:h:1"},
	} {
		if _, _, err := parseServers([]Server{bad}); err == nil {
			t.Errorf("took %+v", bad)
		}
	}
	if _, _, err := parseServers(make([]Server, maxServerList+1)); err == nil {
		t.Error("took any number")
	}
	hosts, relays, err := parseServers([]Server{
		{URL: "stun:a:1"}, {URL: "turn:a:1?transport=udp", Username: "u", Password: "p"},
		{URL: "turn:b:2?transport=tcp", Username: "u", Password: "p"}, {URL: "turns:c:3?transport=tcp", Username: "u", Password: "p"},
	})
	if err != nil || len(hosts) != 1 || hosts[0] != "a:1" || len(relays) != 3 {
		t.Errorf("hosts %v, relays %v, %v", hosts, relays, err)
	}
	if _, err := Start(t.Context(), Config{RelayOnly: true}); err == nil {
		t.Error("started with relays only, and none")
	}
	if _, err := Start(t.Context(), Config{}); err == nil {
		t.Error("started without a socket")
	}
}
