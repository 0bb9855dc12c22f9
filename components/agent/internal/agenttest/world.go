package agenttest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/core/appcompose"
	"cadre.dev/overlay"
)

// Names of the world.
const (
	Cluster          = "demo"
	CoordinatorAppID = "c000000000000000000000000000000000000001"
	WorkerAppID      = "a000000000000000000000000000000000000001"
	OSImage          = "dstack-0.5.7"
)

// appCompose carries the trust file, as every CVM's must.
func (w *World) appCompose(t testing.TB) []byte {
	t.Helper()
	trust, err := json.Marshal(w.Trust())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{
		"manifest_version": 2, "name": "web-0", "runner": "docker-compose", "kms_enabled": true, "key_provider": "kms", "secure_time": true, "init_script": appcompose.InitScript,
		"docker_compose_file": w.services() + "configs:\n  trust:\n    content: '" + string(trust) + "'\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// services is the services section of every CVM's compose text.
func (w *World) services() string {
	if w.Services == "" {
		return "services: {}\n"
	}
	return w.Services
}

// Collateral is the manufacturer's present collateral for the world's machines.
func (w *World) Collateral() ([]byte, error) {
	bundle, err := w.Cloud.Collateral(time.Now(), w.Posture)
	if err != nil {
		return nil, err
	}
	return bundle.Encode()
}

// ClusterID is the one of NewWorld, SecondClusterID that of Second.
const (
	ClusterID       = "0123456789abcdef0123456789abcdef"
	SecondClusterID = "fedcba9876543210fedcba9876543210"
)

// World is one cloud with one cluster's CA.
type World struct {
	Cloud *attestsim.Cloud
	// Posture is the manufacturer's rating of the machines; zero: up to date.
	Posture attestsim.Posture
	Gateway *Gateway
	// Services is the text of the services in every CVM's compose file; "": there are none.
	Services string
	// ClusterID of the cluster.
	ClusterID string
	CA        *x509.Certificate
	CAPEM     []byte
	Roots     *x509.CertPool
	caKey     ed25519.PrivateKey
}

// NewWorld makes a fresh one.
func NewWorld(t testing.TB) *World {
	t.Helper()
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Cloud: cloud, Gateway: NewGateway(t)}
	w.found(t, ClusterID)
	return w
}

// Second returns the world of a second set of coordinators of the same app, on empty disks: the
// same cluster name with another cluster ID.
func (w *World) Second(t testing.TB) *World {
	t.Helper()
	second := *w
	second.found(t, SecondClusterID)
	return &second
}

func (w *World) found(t testing.TB, clusterID string) {
	t.Helper()
	var err error
	w.ClusterID, w.Roots = clusterID, x509.NewCertPool()
	_, w.caKey, err = ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA", SerialNumber: clusterID},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, w.caKey.Public(), w.caKey)
	if err != nil {
		t.Fatal(err)
	}
	if w.CA, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	w.CAPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	w.Roots.AddCert(w.CA)
}

// Trust is the world's trust file.
func (w *World) Trust() attest.Trust {
	return attest.Trust{
		Cluster: Cluster, CoordinatorAppID: CoordinatorAppID, RootsPEM: string(w.Cloud.RootPEM()),
		KeyProvider: attest.KeyProvider{Name: "kms", ID: w.Cloud.KeyProviderID()},
		Images:      w.Cloud.Images(OSImage), AllowSimulated: true,
	}
}

// TrustFile writes trust into a file.
func TrustFile(t testing.TB, trust attest.Trust) string {
	t.Helper()
	data, err := json.Marshal(trust)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trust.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ComposeHash is the measured hash of every guest of the world.
func (w *World) ComposeHash(t testing.TB) string {
	t.Helper()
	sum := sha256.Sum256(w.appCompose(t))
	return hex.EncodeToString(sum[:])
}

// Guest starts a guest agent and returns its socket and instance id. The seed
// names the CVM.
func (w *World) Guest(t testing.TB, appID string, seed byte, faults attestsim.Faults) (socket, instanceID string) {
	t.Helper()
	guest, err := w.Cloud.Boot(attestsim.BootConfig{
		AppID: appID, AppCompose: w.appCompose(t), OSImage: OSImage, Faults: faults,
		InstanceIDSeed: append(make([]byte, 19), seed),
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ca") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: guest.Handler(), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(ln) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	return socket, guest.InstanceID()
}

// Issue makes an SVID for a public key.
func (w *World) Issue(id overlay.ID, public any, life time.Duration) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	name, err := url.Parse(id.String())
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: id.Slot}, URIs: []*url.URL{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	return x509.CreateCertificate(rand.Reader, template, w.CA, public, w.caKey)
}

// VIP of a coordinator (group 0) or worker in the addresses of one test process.
func VIP(group, n byte) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 120 + byte(os.Getpid()%100), group, n + 1})
}

// Eventually polls f on a ticker; its failure names the awaited state.
func Eventually(t testing.TB, limit time.Duration, what string, f func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}
