package admission

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc/status"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/statement"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

const (
	coordinatorApp = "cccccccccccccccccccccccccccccccccccccccc"
	workloadApp    = "dddddddddddddddddddddddddddddddddddddddd"
	composeText    = "services:\n  pg:\n    image: example.org/pg@sha256:00\n"
	revision       = "11111111111111111111111111111111"
	osImage        = "dstack-0.5.11"
)

// harness is one coordinator's admission on a real Consul with ACLs and simulated hardware, and any
// number of Boots.
type harness struct {
	t          testing.TB
	cloud      *attestsim.Cloud
	root       *keys.Root
	store      *store.Consul
	service    *Service
	cfg        Config // of service
	views      *view.Watcher
	consul     string
	management string
	leader     store.Lease
	live       map[string]bool // boots with a live session
	seed       []byte          // of the one bound CVM
	declared   []group.Secret  // of the group
	image      string          // that CVMs boot; empty: osImage
	host       string          // of the host on which CVMs boot
	ahead      atomic.Int64    // offset of the coordinator's clock, in nanoseconds
}

func (h *harness) now() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

func (h *harness) Live(_, bootID string) bool { return h.live[bootID] }

// endLease gives up the lease of pg-0's Boot, as its keeper does when the Boot is silent.
func (h *harness) endLease() {
	h.t.Helper()
	lease, err := h.service.lease(h.t.Context(), "pg-0")
	if err != nil {
		h.t.Fatal(err)
	}
	giveUpLease(h.t, h.store, lease)
}

// coordinator is another coordinator of the cluster, with the same records and keys.
func (h *harness) coordinator(slot string) *Service {
	h.t.Helper()
	cfg := h.cfg
	identity, err := keys.NewIdentity(h.root.CA(), slot, true)
	if err != nil {
		h.t.Fatal(err)
	}
	cfg.Slot, cfg.Identity = slot, identity
	return New(cfg)
}

func (h *harness) Spec(name string) (group.Spec, bool) {
	return group.Spec{Name: name, Workload: group.Workload{Kind: group.WorkloadPatroni}, Secrets: h.declared}, name == "pg"
}

func (h *harness) InitialPeers(string, string) []*controlv1.Peer {
	return []*controlv1.Peer{{Group: "coordinator", Slot: "coordinator-0", Coordinator: true}}
}

func (h *harness) Admitted()      {}
func (h *harness) Renewed()       {}
func (h *harness) Refused(string) {}

func newHarness(t testing.TB) *harness {
	server := storetest.StartConsulACL(t)
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, cloud: cloud, consul: server.Addr, management: server.ManagementToken, live: map[string]bool{}, seed: bytes.Repeat([]byte{7}, 20)}
	_, own := h.bootCVM(coordinatorApp, "services: {}\n", bytes.Repeat([]byte{9}, 20))
	if h.root, err = keys.Derive(t.Context(), own, "demo", "0123456789abcdef0123456789abcdef"); err != nil {
		t.Fatal(err)
	}
	identity, err := keys.NewIdentity(h.root.CA(), "coordinator-0", true)
	if err != nil {
		t.Fatal(err)
	}
	if h.store, err = store.NewConsul(store.ConsulConfig{Address: server.Addr, Token: server.ManagementToken}); err != nil {
		t.Fatal(err)
	}
	issuer, err := tokens.New(server.Addr, server.ManagementToken, tokens.TTL)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := attest.NewVerifier(attest.VerifierConfig{RootsPEM: cloud.RootPEM(), Collateral: cloud.CollateralSource(time.Now)})
	if err != nil {
		t.Fatal(err)
	}
	views := view.NewWatcher(h.store, slog.New(slog.DiscardHandler))
	h.views = views
	h.cfg = Config{
		Cluster: "demo", AppID: coordinatorApp, Slot: "coordinator-0", Datacenter: "dc1",
		Root: h.root, Identity: identity, Store: h.store, Views: views, Verifier: verifier, Quoter: own, Issuer: issuer, Secrets: secrets.New(h.root, h.store),
		Images:   policy.ImagePolicy{Images: cloud.Images(osImage), KeyProviderName: "kms", KeyProviderID: cloud.KeyProviderID(), AllowSimulated: true},
		Sessions: h, Directory: h, Metrics: h, Now: h.now, Log: slog.New(slog.DiscardHandler),
	}
	h.service = New(h.cfg)
	h.bindSlot()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = views.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	for {
		v, changed := views.Latest()
		if v != nil {
			break
		}
		<-changed
	}
	return h
}

// bindSlot writes the records that a leader writes once pg-0's CVM exists.
func (h *harness) bindSlot() {
	h.t.Helper()
	lease, err := h.store.Acquire(h.t.Context(), "coordinator-0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.leader = lease
	h.t.Cleanup(func() { _ = lease.Release(context.Background()) })
	guest, _ := h.bootCVM(workloadApp, composeText, h.seed)
	sum := sha256.Sum256(appCompose(composeText))
	text := sha256.Sum256([]byte(composeText))
	p, err1 := store.Put(store.SlotPolicyKey("pg-0"), policy.SlotPolicy{
		Group: "pg", Slot: "pg-0", AppID: workloadApp, InstanceID: guest.InstanceID(), Epoch: 1,
		Allowed: []policy.AllowedRevision{{Revision: revision, ComposeHash: hex.EncodeToString(sum[:]), ComposeTextSHA256: hex.EncodeToString(text[:]), OSImage: osImage}},
	}, 0)
	s, err2 := store.Put(store.SlotKey("pg", "pg-0"), group.SlotRecord{Group: "pg", Slot: "pg-0", VIP: "127.50.1.1", PlatformName: "demo-pg-0"}, 0)
	if err1 != nil || err2 != nil {
		h.t.Fatal(err1, err2)
	}
	if err := h.store.Commit(h.t.Context(), append(lease.Fence(), p, s)...); err != nil {
		h.t.Fatal(err)
	}
}

func appCompose(text string) []byte {
	raw, err := json.Marshal(map[string]any{
		"manifest_version": 2, "name": "demo-pg", "runner": "docker-compose", "docker_compose_file": text,
		"kms_enabled": true, "key_provider": "kms", "gateway_enabled": true, "secure_time": true, "init_script": appcompose.InitScript,
	})
	if err != nil {
		return nil
	}
	return raw
}

// bootCVM boots a simulated CVM and serves its guest agent.
func (h *harness) bootCVM(app, compose string, seed []byte) (*attestsim.Guest, *attest.GuestClient) {
	h.t.Helper()
	guest, err := h.cloud.Boot(attestsim.BootConfig{AppID: app, AppCompose: appCompose(compose), InstanceIDSeed: seed, OSImage: cmp.Or(h.image, osImage), Host: h.host})
	if err != nil {
		h.t.Fatal(err)
	}
	socket := filepath.Join(h.t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		h.t.Fatal(err)
	}
	server := &http.Server{Handler: guest.Handler(), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	client := attest.NewGuestClient(socket)
	h.t.Cleanup(func() { client.Close(); _ = server.Close(); <-done })
	return guest, client
}

// boot is one Boot of a workload CVM, connected to the coordinator.
type boot struct {
	h       *harness
	info    attest.Info
	guest   *attest.GuestClient
	cert    tls.Certificate
	spki    []byte
	contact *contact
	channel []byte
	at      *Service // the coordinator that it connects to
}

func (h *harness) boot(compose string, seed []byte) *boot {
	h.t.Helper()
	_, client := h.bootCVM(workloadApp, compose, seed)
	info, err := client.Info(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "boot"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	b := &boot{h: h, at: h.service, info: info, guest: client, cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
	if b.spki, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		h.t.Fatal(err)
	}
	b.connect()
	return b
}

func (b *boot) id() string {
	sum := sha256.Sum256(b.spki)
	return hex.EncodeToString(sum[:])
}

// connect makes a new TLS connection of this Boot to the coordinator.
func (b *boot) connect() {
	b.h.t.Helper()
	own, err := b.at.cfg.Identity.Certificate(time.Now())
	if err != nil {
		b.h.t.Fatal(err)
	}
	near, far := net.Pipe()
	b.h.t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13})
	shook := make(chan error, 1)
	go func() { shook <- server.HandshakeContext(b.h.t.Context()) }()
	client := tls.Client(near, &tls.Config{Certificates: []tls.Certificate{b.cert}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	// TLS 1.3: the client's handshake ends before the server has read the rest.
	go func() { _, _ = client.Read(make([]byte, 1)) }()
	if err := client.HandshakeContext(b.h.t.Context()); err != nil {
		b.h.t.Fatal(err)
	}
	if err := <-shook; err != nil {
		b.h.t.Fatal(err)
	}
	if b.contact, err = b.at.contact(server.ConnectionState()); err != nil {
		b.h.t.Fatal(err)
	}
	state := client.ConnectionState()
	if b.channel, err = state.ExportKeyingMaterial(overlay.AdmissionExporter, nil, 32); err != nil {
		b.h.t.Fatal(err)
	}
}

func (b *boot) challenge() (*admissionv1.ChallengeResponse, error) {
	return b.contact.Challenge(b.h.t.Context(), &admissionv1.ChallengeRequest{
		AppId: b.info.AppID, InstanceId: b.info.InstanceID, BootPublicKey: b.spki, BootNonce: bytes.Repeat([]byte{3}, 32),
	})
}

// request is an honest AdmitRequest for a challenge; change alters the statement before it is
// quoted.
func (b *boot) request(c *admissionv1.ChallengeResponse, change func(*statement.Agent)) *admissionv1.AdmitRequest {
	b.h.t.Helper()
	said := statement.Agent{
		Cluster: c.GetCluster(), ClusterID: b.h.root.ClusterID(), Group: c.GetGroup(), Slot: c.GetSlot(), AppID: b.info.AppID, InstanceID: b.info.InstanceID,
		ComposeHash: b.info.ComposeHash, BootPublicKey: b.spki, Nonce: c.GetNonce(), Exporter: b.channel,
	}
	if change != nil {
		change(&said)
	}
	data := said.ReportData()
	ev, err := b.guest.GetQuote(b.h.t.Context(), data[:])
	if err != nil {
		b.h.t.Fatal(err)
	}
	return &admissionv1.AdmitRequest{
		Statement: said.Encode(),
		Evidence:  &admissionv1.Evidence{Quote: ev.Quote, EventLog: ev.EventLog, AppCompose: ev.AppCompose},
	}
}

// admit makes the whole exchange on a new connection.
func (b *boot) admit() (*admissionv1.AdmitResponse, error) {
	b.h.t.Helper()
	b.connect()
	c, err := b.challenge()
	if err != nil {
		return nil, err
	}
	return b.contact.Admit(b.h.t.Context(), b.request(c, nil))
}

func (b *boot) mustAdmit() *admissionv1.AdmitResponse {
	b.h.t.Helper()
	out, err := b.admit()
	if err != nil {
		b.h.t.Fatal(err)
	}
	return out
}

func (h *harness) admission() policy.Admission {
	h.t.Helper()
	a, _, err := store.Read[policy.Admission](h.t.Context(), h.store, store.AdmissionKey("pg-0"))
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// wantRefusal checks the caller's answer and the recorded code.
func (h *harness) wantRefusal(err error, public, recorded policy.Code) {
	h.t.Helper()
	if got := status.Convert(err).Message(); !strings.HasPrefix(got, string(public)+":") {
		h.t.Errorf("answer %q, want code %s", got, public)
	}
	if recorded == "" {
		return
	}
	r, _, readErr := store.Read[policy.Refusal](h.t.Context(), h.store, store.RefusalKey("pg-0"))
	if readErr != nil || r.Code != recorded {
		h.t.Errorf("record %+v (%v), want code %s", r, readErr, recorded)
	}
}

func (h *harness) as(token string) *consul.Client {
	h.t.Helper()
	c, err := consul.NewClient(&consul.Config{Address: h.consul, Token: token})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}
