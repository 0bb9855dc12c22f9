package bootstrap

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/statement"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	"cadre.dev/overlay/overlaytest"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

const (
	cluster = "demo"
	app     = "cccccccccccccccccccccccccccccccccccccccc"
	osImage = "dstack-0.5.11"
	domain  = "gw.test"
)

// cloud is one platform with the CVMs of the coordinators' app.
type cloud struct {
	*attestsim.Cloud
	gateway  *overlaytest.Gateway
	verifier *attest.Verifier
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	sim, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{Cloud: sim, gateway: overlaytest.NewGateway(t)}
	if c.verifier, err = attest.NewVerifier(attest.VerifierConfig{RootsPEM: sim.RootPEM()}); err != nil {
		t.Fatal(err)
	}
	return c
}

// withCollateral adds the manufacturer's collateral of the machine to evidence.
type withCollateral struct {
	*attest.GuestClient
	cloud *cloud
}

func (q withCollateral) GetQuote(ctx context.Context, data []byte) (attest.Evidence, error) {
	ev, err := q.GuestClient.GetQuote(ctx, data)
	if err != nil {
		return ev, err
	}
	bundle, err := q.cloud.Collateral(time.Now(), attestsim.Posture{})
	if err == nil {
		ev.Collateral, err = bundle.Encode()
	}
	return ev, err
}

// guest boots a CVM of an app.
func (c *cloud) guest(t *testing.T, app string, seed byte) (*attest.GuestClient, string) {
	t.Helper()
	compose, err := json.Marshal(map[string]any{
		"manifest_version": 2, "name": "coordinator", "runner": "docker-compose", "docker_compose_file": "services: {}\n",
		"kms_enabled": true, "key_provider": "kms", "gateway_enabled": true, "secure_time": true, "init_script": appcompose.InitScript,
	})
	if err != nil {
		t.Fatal(err)
	}
	guest, err := c.Boot(attestsim.BootConfig{AppID: app, AppCompose: compose, InstanceIDSeed: bytes.Repeat([]byte{seed}, 20), OSImage: osImage})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: guest.Handler(), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	client := attest.NewGuestClient(socket)
	t.Cleanup(func() { client.Close(); _ = server.Close(); <-done })
	return client, guest.InstanceID()
}

type serveFunc func(ctx context.Context, conn net.Conn, state tls.ConnectionState)

// prove serves the statement of a coordinator at an instance of that app, as changed by change.
func (c *cloud) prove(t *testing.T, app string, ordinal int, known string, change func(*statement.ClusterID)) (instance string) {
	t.Helper()
	return c.serve(t, app, ordinal, known, change, func(p *Prover) serveFunc { return p.Serve })
}

func (c *cloud) serve(t *testing.T, app string, ordinal int, known string, change func(*statement.ClusterID), how func(*Prover) serveFunc) (instance string) {
	t.Helper()
	guest, instance := c.guest(t, app, byte(ordinal+1))
	boot, err := NewBoot()
	if err != nil {
		t.Fatal(err)
	}
	said := statement.ClusterID{Cluster: cluster, ClusterID: known, AppID: app, Slot: slot(ordinal), TLSPublicKey: boot.Leaf.RawSubjectPublicKeyInfo}
	if change != nil {
		change(&said)
	}
	prover := NewProver(said, withCollateral{guest, c}, slog.New(slog.DiscardHandler))
	node, err := overlay.New(overlay.Config{
		Self:    overlay.ID{Cluster: cluster, Group: overlay.CoordinatorGroup, Slot: slot(ordinal)},
		SelfVIP: netip.AddrFrom4([4]byte{127, 50, 0, byte(ordinal + 1)}), Listen: "127.0.0.1:0", Gateway: overlay.Gateway{Domain: domain},
		Paths: []overlay.PathKind{overlay.PathGateway}, ServeAdmission: how(prover),
	})
	if err != nil {
		t.Fatal(err)
	}
	node.SetCredentials(overlay.Credentials{Certificate: boot})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("node: %v", err)
		}
	})
	for node.ListenAddr() == nil {
		time.Sleep(time.Millisecond)
	}
	c.gateway.Route(overlay.Gateway{Domain: domain}.Name(instance), node.ListenAddr().String())
	return instance
}

func (c *cloud) asker(t *testing.T) *Asker {
	t.Helper()
	boot, err := NewBoot()
	if err != nil {
		t.Fatal(err)
	}
	return &Asker{
		Cluster: cluster, AppID: app, Gateway: overlay.Gateway{Domain: domain, Address: c.gateway.Address()}, Boot: boot, Verifier: c.verifier, Now: time.Now,
		Images: policy.ImagePolicy{Images: c.Images(osImage), KeyProviderName: "kms", KeyProviderID: c.KeyProviderID(), AllowSimulated: true},
	}
}

// TestGEN01_CoordinatorsProveTheirClusterIDToEachOther, or that they have none, before there is a
// CA.
func TestGEN01_CoordinatorsProveTheirClusterIDToEachOther(t *testing.T) {
	c := newCloud(t)
	asker := c.asker(t)
	for ordinal, known := range []string{"", one, another} {
		got, err := asker.Ask(t.Context(), c.prove(t, app, ordinal, known, nil), slot(ordinal))
		if err != nil || got != known {
			t.Errorf("%s of cluster ID %q: %q, %v", slot(ordinal), known, got, err)
		}
	}
}

// Each field of the statement is compared, and only CVMs of the coordinators' app count. An
// impostor's answer "none" would let coordinator-0 make a second cluster while the first is alive.
func TestGEN01_ATT23_ATT30_OnlyCoordinatorsOfTheAppCount(t *testing.T) {
	const otherApp = "dddddddddddddddddddddddddddddddddddddddd"
	for name, tc := range map[string]struct {
		app    string
		change func(*statement.ClusterID)
		asker  func(*Asker)
		want   string
	}{
		"a worker":              {app: otherApp, want: "APP_ID_MISMATCH"},
		"a worker that says so": {app: otherApp, change: func(s *statement.ClusterID) { s.AppID = app }, want: "STATEMENT_MISMATCH"},
		"another cluster":       {change: func(s *statement.ClusterID) { s.Cluster = "prod" }, want: "CLUSTER_MISMATCH"},
		"another coordinator":   {change: func(s *statement.ClusterID) { s.Slot = slot(2) }, want: "SLOT_MISMATCH"},
		"another key": {change: func(s *statement.ClusterID) { s.TLSPublicKey = append([]byte{1}, s.TLSPublicKey[1:]...) },
			want: "CHANNEL_BINDING_MISMATCH"},
		"another key provider":    {asker: func(a *Asker) { a.Images.KeyProviderID = "00ff" }, want: "KMS_POLICY_MISMATCH"},
		"another OS image":        {asker: func(a *Asker) { a.Images.Images = otherImages() }, want: "MEASUREMENT_MISMATCH"},
		"a root that is not ours": {asker: func(a *Asker) { a.Images.AllowSimulated = false }, want: "TEE_TYPE_FORBIDDEN"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			from := tc.app
			if from == "" {
				from = app
			}
			asker := c.asker(t)
			if tc.asker != nil {
				tc.asker(asker)
			}
			got, err := asker.Ask(t.Context(), c.prove(t, from, 1, "", tc.change), slot(1))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q, %v; want %s", got, err, tc.want)
			}
		})
	}
}

// replaying answers every question with its first answer.
type replaying struct {
	admissionv1.UnimplementedBootstrapServiceServer
	*Prover
	first *admissionv1.ProveClusterIDResponse
}

func (r *replaying) Serve(ctx context.Context, conn net.Conn, state tls.ConnectionState) {
	exporter, err := state.ExportKeyingMaterial(overlay.AdmissionExporter, nil, 32)
	if err != nil {
		return
	}
	_ = grpcconn.Serve(ctx, conn, func(server *grpc.Server) {
		admissionv1.RegisterBootstrapServiceServer(server, &replayed{replaying: r, exporter: exporter})
	}, grpcserver.Limits{})
}

type replayed struct {
	*replaying
	exporter []byte
}

func (r *replayed) ProveClusterID(ctx context.Context, req *admissionv1.ProveClusterIDRequest) (out *admissionv1.ProveClusterIDResponse, err error) {
	if r.first == nil {
		r.first, err = (&contact{Prover: r.Prover, exporter: r.exporter}).ProveClusterID(ctx, req)
	}
	return r.first, err
}

// TestGEN01_ATT09_AReplayedProofIsRefused: a proof is for one connection and one nonce, even from
// the holder of the key.
func TestGEN01_ATT09_AReplayedProofIsRefused(t *testing.T) {
	c := newCloud(t)
	asker := c.asker(t)
	instance := c.serve(t, app, 1, "", nil, func(p *Prover) serveFunc { return (&replaying{Prover: p}).Serve })
	if got, err := asker.Ask(t.Context(), instance, slot(1)); err != nil || got != "" {
		t.Fatalf("%q, %v", got, err)
	}
	if got, err := asker.Ask(t.Context(), instance, slot(1)); err == nil || !strings.Contains(err.Error(), "CHANNEL_BINDING_MISMATCH") {
		t.Errorf("an old answer: %q, %v", got, err)
	}
}

func otherImages() map[string][]policy.Measurement {
	m := strings.Repeat("1", 96)
	return map[string][]policy.Measurement{osImage: {{MRTD: m, RTMR0: m, RTMR1: m, RTMR2: m}}}
}
