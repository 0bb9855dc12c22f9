package wholetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/coordinator"
	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/secret/secrettest"
	"cadre.dev/overlay"
	"cadre.dev/overlay/overlaytest"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store/storetest"
)

const (
	// Cluster is the cluster's name.
	Cluster = "demo"
	// CoordinatorApp is the coordinators' application.
	CoordinatorApp = "cccccccccccccccccccccccccccccccccccccccc"
	// OSImage is the OS image of every machine.
	OSImage = "dstack-0.5.11"
	// GatewayDomain is the gateway's domain.
	GatewayDomain = "gw.test"
)

// Isolated runs the calling test again in its own network, where the fixed ports of a coordinator
// are free, and reports whether this is that process. Without root the test is skipped. Outside of
// the network the test is parallel, because it only waits for that process.
func Isolated(t *testing.T) bool {
	t.Helper()
	if !testnet.Inside(t) {
		t.Parallel()
	}
	return testnet.Isolated(t)
}

// Whole is one coordinator with its environment. Change fields before Start.
type Whole struct {
	T testing.TB
	// Renewals is the fault of the last renewal, a text; empty: good.
	Renewals atomic.Value
	// Proxy is how the last stream of a proxy ended, a text.
	Proxy         atomic.Value
	Cloud         *attestsim.Cloud
	Gateway       *overlaytest.Gateway
	Platform      *Platform
	Verifier      *attest.Verifier
	Guest         *attest.GuestClient
	OperatorToken string
	Config        coordinator.Config
	// Log is the coordinator's log; nil: standard error.
	Log *slog.Logger
	// Member returns the agent's report about the workload of a Slot; nil: no roles, and all is
	// well.
	Member func(slot string) *controlv1.MemberView
	// Machine returns the number of the machine on which the CVM of that name boots; nil: 0 for all. Set
	// it before Start.
	Machine func(cvm string) int
	// Stop ends the coordinator; set by Start.
	Stop func() error
}

// New prepares a coordinator for Start. Its environment ends with the test.
func New(t testing.TB) *Whole {
	t.Helper()
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &Whole{T: t, Cloud: cloud, Gateway: overlaytest.NewGateway(t), OperatorToken: "4b1ac5b8-2f0a-44c8-b1e7-52d3e5a7c0de"}
	if h.Verifier, err = attest.NewVerifier(attest.VerifierConfig{RootsPEM: cloud.RootPEM()}); err != nil {
		t.Fatal(err)
	}
	pccs := httptest.NewServer(cloud.NewPCCS(time.Now))
	t.Cleanup(pccs.Close)
	digest := sha256.Sum256([]byte(h.OperatorToken))
	trust := attest.Trust{
		Cluster: Cluster, CoordinatorAppID: CoordinatorApp, RootsPEM: string(cloud.RootPEM()), AllowSimulated: true,
		KeyProvider: attest.KeyProvider{Name: "kms", ID: cloud.KeyProviderID()}, Images: cloud.Images(OSImage),
		OperatorTokenSHA256: hex.EncodeToString(digest[:]), Collateral: attest.TrustCollateral{PCCSURL: pccs.URL},
	}
	trustFile, err := json.Marshal(trust)
	if err != nil {
		t.Fatal(err)
	}
	measured := "services: {}\nconfigs:\n  trust:\n    content: '" + string(trustFile) + "'\n"
	guest, client := bootGuest(t, cloud, CoordinatorApp, appCompose(measured), bytes.Repeat([]byte{1}, 20), 0)
	h.Guest = client
	h.Platform = newPlatform(h, guest.InstanceID())
	h.Config = coordinator.Config{
		Cluster: Cluster, Slot: "coordinator-0", Replicas: 1, ConsulBinary: storetest.ConsulBinary(t),
		StateDir: t.TempDir(), RunDir: secrettest.MemoryDir(t), Gateway: overlay.Gateway{Domain: GatewayDomain, Address: h.Gateway.Address()},
		SessionListen: "127.0.0.1:7443", APIListen: "127.0.0.1:7444", Version: "test",
		Trust: trust, TrustFile: trustFile,
	}
	h.Gateway.Route(CoordinatorApp+"-7443s."+GatewayDomain, "127.0.0.1:7443")
	h.Gateway.Route(CoordinatorApp+"-7444s."+GatewayDomain, "127.0.0.1:7444")
	h.Gateway.Route(guest.InstanceID()+"-7443s."+GatewayDomain, "127.0.0.1:7443")
	return h
}

// Start runs the coordinator until the test ends.
func (h *Whole) Start() {
	h.T.Helper()
	log := h.Log
	if log == nil {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	c, err := coordinator.New(h.Config, coordinator.Deps{
		Guest: h.Guest, Platform: h.Platform,
		Log: log,
	})
	if err != nil {
		h.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.T.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	var once sync.Once
	var result error
	h.Stop = func() error {
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
	h.T.Cleanup(func() { _ = h.Stop(); h.Platform.Close() })
}

// Eventually retries until there is no error; the test fails after a minute.
func (h *Whole) Eventually(what string, try func() error) {
	h.T.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.T.Fatalf("%s: %v", what, err)
		}
		<-tick.C
	}
}

func appCompose(text string) []byte {
	raw, err := json.Marshal(map[string]any{
		"manifest_version": 2, "name": "demo-web", "runner": "docker-compose", "docker_compose_file": text,
		"kms_enabled": true, "key_provider": "kms", "gateway_enabled": true, "secure_time": true, "init_script": appcompose.InitScript,
	})
	if err != nil {
		return nil
	}
	return raw
}

func bootGuest(t testing.TB, cloud *attestsim.Cloud, app string, compose, seed []byte, machine int) (*attestsim.Guest, *attest.GuestClient) {
	t.Helper()
	guest, err := cloud.Boot(attestsim.BootConfig{AppID: app, AppCompose: compose, InstanceIDSeed: seed, OSImage: OSImage, Machine: machine})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
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
