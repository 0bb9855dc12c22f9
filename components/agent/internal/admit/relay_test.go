package admit_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/overlay"
)

// relay sits between an agent and the coordinator: TLS of its own to both, and
// every byte within passed on verbatim.
type relay struct {
	t       *testing.T
	own     *admit.Boot
	gateway overlay.Gateway
	cert    tls.Certificate
	copies  sync.WaitGroup

	mu   sync.Mutex
	seen []byte // guarded by mu; the agent's bytes
}

func newRelay(t *testing.T, w *agenttest.World) *relay {
	t.Helper()
	own, err := admit.NewBoot()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "coordinator-0"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, own: own, gateway: w.Gateway.Config(), cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
	t.Cleanup(r.copies.Wait)
	return r
}

// relayed is the agent's end: a TLS connection that ends at the relay.
type relayed struct {
	*tls.Conn
}

func (c relayed) State() tls.ConnectionState { return c.ConnectionState() }

// dial gives the agent a connection that leads to the coordinator through the relay.
func (r *relay) dial(ctx context.Context, boot tls.Certificate) (admit.Conn, error) {
	up, err := overlay.DialAdmission(ctx, r.gateway, r.gateway.Name(agenttest.CoordinatorAppID), r.own.Certificate)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{r.cert}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13})
	client := tls.Client(near, &tls.Config{Certificates: []tls.Certificate{boot}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	r.copies.Go(func() {
		defer func() { _, _ = up.Close(), server.Close() }()
		_, _ = io.Copy(io.MultiWriter(up, r), server)
	})
	r.copies.Go(func() {
		defer func() { _, _ = up.Close(), server.Close() }()
		_, _ = io.Copy(server, up)
	})
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return relayed{client}, nil
}

// Write records the agent's bytes.
func (r *relay) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, b...)
	return len(b), nil
}

// TestATT12_AnAgentGivesARelayNothing: the relay shows the genuine coordinator's
// evidence, which commits to the relay's own connection and not to the agent's. The
// agent ends there: it has sent no evidence, and the relay gets no credentials.
func TestATT12_AnAgentGivesARelayNothing(t *testing.T) {
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	socket, _ := w.Guest(t, agenttest.WorkerAppID, 1, attestsim.Faults{})
	guest := attest.NewGuestClient(socket)
	t.Cleanup(guest.Close)
	boot, err := admit.NewBoot()
	if err != nil {
		t.Fatal(err)
	}
	trust := w.Trust()
	verifier, err := attest.NewVerifier(trust.VerifierConfig())
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, w)
	client := admit.New(admit.Config{
		Boot: boot, Guest: guest, Verifier: verifier, Trust: trust,
		Dial: func(ctx context.Context) (admit.Conn, error) { return r.dial(ctx, boot.Certificate) },
	})
	if _, err := client.Admit(t.Context()); err == nil || !strings.Contains(err.Error(), "CHANNEL_BINDING_MISMATCH") {
		t.Errorf("admit through a relay: %v", err)
	}
	if len(c.Boots()) != 0 {
		t.Error("a boot was admitted")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 || strings.Contains(string(r.seen), "Admit\x00") || strings.Contains(string(r.seen), "cadre-agent-statement") {
		t.Error("the relay saw nothing, or evidence")
	}
}

// TestAdmissionStatusTrustsOnlyACoordinator: only a coordinator under the CA of the admission can make
// the Boot give up its Slot.
func TestAdmissionStatusTrustsOnlyACoordinator(t *testing.T) {
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	client, _ := newClient(t, w, w.Trust())
	admitted, err := client.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.AdmissionStatus(t.Context(), &admitted); err != nil {
		t.Errorf("the coordinator says: %v", err)
	}
	other := agenttest.NewWorld(t)
	admitted.Credentials.Roots = other.Roots
	if err := client.AdmissionStatus(t.Context(), &admitted); err == nil || admit.OnlyEnded(err) != nil || !strings.Contains(err.Error(), "BROKER_UNTRUSTED") {
		t.Errorf("a server of another CA: %v", err)
	}
}
