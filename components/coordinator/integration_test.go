package coordinator_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/statement"
	"cadre.dev/coordinator"
	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/secret/secrettest"
	"cadre.dev/overlay"
	"cadre.dev/overlay/overlaytest"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store/storetest"
)

// TestOneCoordinator runs a whole coordinator: real Consul, real overlay, real
// API, simulated hardware, a platform of one test. An operator applies a group,
// its CVM is created, its agent is admitted, and the rollout completes.
func TestOneCoordinator(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	h := newHarness(t)
	h.start()
	api := h.dial(h.operatorToken)

	h.eventually("the first answer", func() error {
		_, err := api.GetCluster(api.ctx, &apiv1.GetClusterRequest{})
		return err
	})
	h.attestation(api)

	stranger := h.dial("9f3c2c86-58a5-4c4f-8e0e-1b7ab7a7aaaa")
	if _, err := stranger.ApplyGroup(stranger.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "one")}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a token that Consul does not know applied a group: %v", err)
	}
	if _, err := h.dial("").ListGroups(t.Context(), &apiv1.ListGroupsRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call without a token: %v", err)
	}
	if _, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: []byte(`{"name":"web","replicas":0}`)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an invalid spec: %v", err)
	}
	applied, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "one")})
	if err != nil || !applied.GetChanged() {
		t.Fatalf("apply: %v %v", applied, err)
	}
	again, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "one")})
	if err != nil || again.GetChanged() || again.GetIndex() != applied.GetIndex() {
		t.Errorf("apply again: %v %v", again, err)
	}
	h.complete(api, applied.GetRevision())
	applied, err = api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "two"), ExpectedIndex: applied.GetIndex()})
	if err != nil {
		t.Fatal(err)
	}
	h.complete(api, applied.GetRevision())
	if _, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "one"), ExpectedIndex: 1}); status.Code(err) != codes.Aborted {
		t.Errorf("a stale index: %v", err)
	}
	instances, err := api.ListInstances(api.ctx, &apiv1.ListInstancesRequest{Group: "web"})
	if err != nil || len(instances.GetInstancesJson()) != 1 {
		t.Fatalf("instances: %v %v", instances, err)
	}
	var one group.InstanceStatus
	if err := json.Unmarshal(instances.GetInstancesJson()[0], &one); err != nil || one.Slot != "web-0" || one.Observed != applied.GetRevision() {
		t.Errorf("instance: %+v %v", one, err)
	}
	if _, err := api.PauseRollout(api.ctx, &apiv1.PauseRolloutRequest{Group: "web", Reason: "look"}); err != nil {
		t.Errorf("pause: %v", err)
	}
	if _, err := api.ResumeRollout(api.ctx, &apiv1.ResumeRolloutRequest{Group: "web"}); err != nil {
		t.Errorf("resume: %v", err)
	}
	described, err := api.DescribeInstance(api.ctx, &apiv1.DescribeInstanceRequest{Slot: "web-0"})
	if err != nil || len(described.GetOperationsJson()) != 2 {
		t.Errorf("describe: %d operations, %v", len(described.GetOperationsJson()), err)
	}
	h.mesh(api)
	h.eventually("a renewal over the control session", func() error {
		if outcome, _ := h.renewals.Load().(string); h.renewals.Load() == nil || outcome != "" {
			return fmt.Errorf("renewal: %v", h.renewals.Load())
		}
		return nil
	})
	if err := h.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// complete waits on the watch until the group is at a Revision.
func (h *harness) complete(api *operator, revision string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(api.ctx, time.Minute)
	defer cancel()
	stream, err := api.WatchGroup(ctx, &apiv1.WatchGroupRequest{Group: "web"})
	if err != nil {
		h.t.Fatal(err)
	}
	last := ""
	for {
		seen, err := stream.Recv()
		if err != nil {
			h.t.Fatalf("watch: %v; last status %s", err, last)
		}
		var st group.Status
		if err := json.Unmarshal(seen.GetStatusJson(), &st); err != nil {
			h.t.Fatal(err)
		}
		last = string(seen.GetStatusJson())
		if st.Stable == revision && st.RolloutState == string(operation.Complete) && st.Available == 1 {
			return
		}
	}
}

// attestation checks what a client checks before it sends its token.
func (h *harness) attestation(api *operator) {
	h.t.Helper()
	nonce := bytes.Repeat([]byte{5}, 32)
	proof, err := api.AttestCoordinator(h.t.Context(), &apiv1.AttestCoordinatorRequest{Nonce: nonce})
	if err != nil {
		h.t.Fatal(err)
	}
	said, err := statement.DecodeCoordinator(proof.GetStatement())
	if err != nil {
		h.t.Fatal(err)
	}
	claims, err := h.verifier.Verify(h.t.Context(), attest.Evidence{Quote: proof.GetQuote(), EventLog: proof.GetEventLog(), AppCompose: proof.GetAppCompose()}, said.ReportData())
	if err != nil || claims.AppID != coordinatorApp || !bytes.Equal(said.PeerNonce, nonce) {
		h.t.Errorf("attestation: %v, app %s", err, claims.AppID)
	}
}

func specJSON(t *testing.T, release string) []byte {
	t.Helper()
	ready := 0
	raw, err := json.Marshal(group.Spec{
		Name: "web", Platform: "phala", Replicas: 1,
		Template: group.Template{
			Compose:      "services:\n  web:\n    image: example.org/web@sha256:" + strings.Repeat("a", 64) + "\n    environment:\n      RELEASE: " + release + "\n",
			InstanceType: "tdx.small", OSImage: osImage,
		},
		UpdatePolicy: group.UpdatePolicy{MinReadySeconds: &ready},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const (
	coordinatorApp = "cccccccccccccccccccccccccccccccccccccccc"
	osImage        = "dstack-0.5.11"
	gatewayDomain  = "gw.test"
)

type harness struct {
	t *testing.T
	// renewals is the outcome of the last renewal, a text; empty: good.
	renewals      atomic.Value
	cloud         *attestsim.Cloud
	gateway       *overlaytest.Gateway
	platform      *cloudPlatform
	verifier      *attest.Verifier
	guest         *attest.GuestClient
	operatorToken string
	config        coordinator.Config
	stop          func() error
}

func newHarness(t *testing.T) *harness {
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, cloud: cloud, gateway: overlaytest.NewGateway(t), operatorToken: "4b1ac5b8-2f0a-44c8-b1e7-52d3e5a7c0de"}
	if h.verifier, err = attest.NewVerifier(attest.VerifierConfig{RootsPEM: cloud.RootPEM()}); err != nil {
		t.Fatal(err)
	}
	pccs := httptest.NewServer(cloud.NewPCCS(time.Now))
	t.Cleanup(pccs.Close)
	digest := sha256.Sum256([]byte(h.operatorToken))
	trust := attest.Trust{
		Cluster: "demo", CoordinatorAppID: coordinatorApp, RootsPEM: string(cloud.RootPEM()), AllowSimulated: true,
		KeyProvider: attest.KeyProvider{Name: "kms", ID: cloud.KeyProviderID()}, Images: cloud.Images(osImage),
		OperatorTokenSHA256: hex.EncodeToString(digest[:]), Collateral: attest.TrustCollateral{PCCSURL: pccs.URL},
	}
	trustFile, err := json.Marshal(trust)
	if err != nil {
		t.Fatal(err)
	}
	measured := "services: {}\nconfigs:\n  trust:\n    content: '" + string(trustFile) + "'\n"
	guest, client := bootCVM(t, cloud, coordinatorApp, appCompose(measured), bytes.Repeat([]byte{1}, 20))
	h.guest = client
	h.platform = newCloudPlatform(h, guest.InstanceID())
	h.config = coordinator.Config{
		Cluster: "demo", Slot: "coordinator-0", Replicas: 1, ConsulBinary: storetest.ConsulBinary(t),
		StateDir: t.TempDir(), RunDir: secrettest.MemoryDir(t), Gateway: overlay.Gateway{Domain: gatewayDomain, Address: h.gateway.Address()},
		SessionListen: "127.0.0.1:7443", APIListen: "127.0.0.1:7444", Version: "test",
		Trust: trust, TrustFile: trustFile,
	}
	h.gateway.Route(coordinatorApp+"-7443s."+gatewayDomain, "127.0.0.1:7443")
	h.gateway.Route(guest.InstanceID()+"-7443s."+gatewayDomain, "127.0.0.1:7443")
	return h
}

func (h *harness) start() {
	h.t.Helper()
	level := slog.LevelInfo
	c, err := coordinator.New(h.config, coordinator.Deps{
		Guest: h.guest, Platform: h.platform,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	var once sync.Once
	var result error
	h.stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case result = <-ended:
			case <-time.After(30 * time.Second):
				result = errors.New("the coordinator did not stop")
			}
		})
		return result
	}
	h.t.Cleanup(func() { _ = h.stop(); h.platform.close() })
}

func (h *harness) eventually(what string, try func() error) {
	h.t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s: %v", what, err)
		}
		<-tick.C
	}
}

// operator is an API client with a token.
type operator struct {
	apiv1.ClusterServiceClient
	policy apiv1.PolicyServiceClient
	ctx    context.Context //nolint:containedctx // it carries the token and ends with the test
}

func (h *harness) dial(token string) *operator {
	h.t.Helper()
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:7444", grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return &operator{ClusterServiceClient: apiv1.NewClusterServiceClient(conn), policy: apiv1.NewPolicyServiceClient(conn), ctx: metadata.AppendToOutgoingContext(h.t.Context(), "x-consul-token", token)}
}

func appCompose(text string) []byte {
	raw, err := json.Marshal(map[string]any{
		"manifest_version": 2, "name": "demo-web", "runner": "docker-compose", "docker_compose_file": text,
		"kms_enabled": true, "key_provider": "kms", "gateway_enabled": true, "secure_time": true,
	})
	if err != nil {
		return nil
	}
	return raw
}

func bootCVM(t testing.TB, cloud *attestsim.Cloud, app string, compose, seed []byte) (*attestsim.Guest, *attest.GuestClient) {
	t.Helper()
	guest, err := cloud.Boot(attestsim.BootConfig{AppID: app, AppCompose: compose, InstanceIDSeed: seed, OSImage: osImage})
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
	return guest, client
}
