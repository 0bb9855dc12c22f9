package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/coordinator/internal/bootstrap"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/secret/secrettest"
	"cadre.dev/overlay"
	"cadre.dev/overlay/overlaytest"
	"cadre.dev/platform"
)

// listing is a platform with these CVMs and no other call.
type listing struct {
	platform.Platform
	all []platform.Instance
}

func (l *listing) List(context.Context, string) ([]platform.Instance, error) { return l.all, nil }

func (l *listing) Habits() platform.Habits { return platform.Habits{} }

const settleApp = "cccccccccccccccccccccccccccccccccccccccc"

// site is one app of coordinators, with the same keys on every disk.
type site struct {
	t     *testing.T
	cloud *attestsim.Cloud
	trust attest.Trust
	text  []byte
}

func newSite(t *testing.T) *site {
	t.Helper()
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, cloud: cloud, trust: attest.Trust{
		Cluster: "demo", CoordinatorAppID: settleApp, RootsPEM: string(cloud.RootPEM()), AllowSimulated: true,
		KeyProvider: attest.KeyProvider{Name: "kms", ID: cloud.KeyProviderID()}, Images: cloud.Images("dstack-0.5.11"),
		Collateral: attest.TrustCollateral{PCCSURL: "http://127.0.0.1:1"},
	}}
	if s.text, err = json.Marshal(s.trust); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) guest(seed byte) (*attest.GuestClient, string) {
	s.t.Helper()
	compose, err := json.Marshal(map[string]any{
		"manifest_version": 2, "name": "coordinator", "runner": "docker-compose", "kms_enabled": true, "key_provider": "kms", "secure_time": true, "init_script": appcompose.InitScript,
		"docker_compose_file": "services: {}\nconfigs:\n  trust:\n    content: '" + string(s.text) + "'\n",
	})
	if err != nil {
		s.t.Fatal(err)
	}
	guest, err := s.cloud.Boot(attestsim.BootConfig{AppID: settleApp, AppCompose: compose, InstanceIDSeed: bytes.Repeat([]byte{seed}, 20), OSImage: "dstack-0.5.11"})
	if err != nil {
		s.t.Fatal(err)
	}
	socket := filepath.Join(s.t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		s.t.Fatal(err)
	}
	server := &http.Server{Handler: guest.Handler(), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	client := attest.NewGuestClient(socket)
	s.t.Cleanup(func() { client.Close(); _ = server.Close(); <-done })
	return client, guest.InstanceID()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// settleAll starts three coordinators on these disks until their keys can be derived, and returns
// the cluster ID of each.
func (s *site) settleAll(dirs [3]string, seeds byte) (out [3]string) {
	s.t.Helper()
	gateway, list := overlaytest.NewGateway(s.t), &listing{}
	verifier, err := attest.NewVerifier(attest.VerifierConfig{RootsPEM: s.cloud.RootPEM()})
	if err != nil {
		s.t.Fatal(err)
	}
	var all [3]*Coordinator
	for n := range all {
		guest, instance := s.guest(seeds + byte(n))
		at := freeAddress(s.t)
		where := overlay.Gateway{Domain: "gw.test", Address: gateway.Address()}
		gateway.Route(where.Name(instance), at)
		list.all = append(list.all, platform.Instance{Name: "demo-" + peering.CoordinatorSlot(n), VMUUID: fmt.Sprint("vm-", n), AppID: settleApp, InstanceID: instance, Status: "running"})
		if all[n], err = New(Config{
			Cluster: "demo", Slot: peering.CoordinatorSlot(n), Replicas: 3, Trust: s.trust, TrustFile: s.text, Gateway: where,
			StateDir: dirs[n], RunDir: secrettest.MemoryDir(s.t), SessionListen: at, StatusListen: freeAddress(s.t),
		}, Deps{Guest: guest, Platform: list, Verifier: verifier, Log: slog.New(slog.DiscardHandler)}); err != nil {
			s.t.Fatal(err)
		}
	}
	var wait, serving sync.WaitGroup
	ctx, stop := context.WithTimeout(s.t.Context(), time.Minute)
	defer serving.Wait()
	defer stop()
	for n, c := range all {
		wait.Go(func() {
			err := c.identify(ctx)
			c.quoter = withCollateral{c.deps.Guest, s.cloud}
			if err == nil {
				err = c.settle(ctx)
			}
			if err != nil {
				s.t.Errorf("%s: %v", c.cfg.Slot, err)
				return
			}
			out[n] = c.clusterID.ClusterID
			// Its admission would answer from here on.
			work := newTasks(ctx)
			if err := c.answerUnsettled(ctx, work); err != nil {
				s.t.Errorf("%s: %v", c.cfg.Slot, err)
			}
			serving.Go(func() { <-ctx.Done(); work.stop() })
		})
	}
	wait.Wait()
	return out
}

type withCollateral struct {
	Guest
	cloud *attestsim.Cloud
}

func (q withCollateral) GetQuote(ctx context.Context, data []byte) (attest.Evidence, error) {
	ev, err := q.Guest.GetQuote(ctx, data)
	if err != nil {
		return ev, err
	}
	bundle, err := q.cloud.Collateral(time.Now(), attestsim.Posture{})
	if err == nil {
		ev.Collateral, err = bundle.Encode()
	}
	return ev, err
}

// TestGEN01_GEN02_TwoSetsOfCoordinatorsOfOneApp: three coordinators that start at once have one
// cluster ID, by evidence over real first contacts. A second set on empty disks has another, with
// another CA.
func TestGEN01_GEN02_TwoSetsOfCoordinatorsOfOneApp(t *testing.T) {
	s := newSite(t)
	dirs := [3]string{t.TempDir(), t.TempDir(), t.TempDir()}
	first := s.settleAll(dirs, 1)
	if first[0] == "" || first[1] != first[0] || first[2] != first[0] {
		t.Fatalf("the first start: %v", first)
	}
	for n := range dirs {
		if kept, err := bootstrap.Load(dirs[n]); err != nil || kept.ClusterID != first[0] || kept.Recorded {
			t.Errorf("disk %d: %+v, %v", n, kept, err)
		}
	}
	second := s.settleAll([3]string{t.TempDir(), t.TempDir(), t.TempDir()}, 11)
	if second[0] == "" || second[1] != second[0] || second[2] != second[0] || second[0] == first[0] {
		t.Fatalf("the second set: %v, the first %v", second, first)
	}
	guest, _ := s.guest(21)
	var bundles [2][32]byte
	for i, id := range []string{first[0], second[0]} {
		root, err := keys.Derive(t.Context(), guest, "demo", id)
		if err != nil {
			t.Fatal(err)
		}
		bundles[i] = root.CA().BundleSHA256()
	}
	if bundles[0] == bundles[1] {
		t.Error("both sets have one CA")
	}
}
