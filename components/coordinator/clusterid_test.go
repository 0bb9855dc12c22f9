package coordinator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/attest/statement"
	"cadre.dev/coordinator"
	"cadre.dev/coordinator/internal/bootstrap"
	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/coordinator/wholetest"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// logged is a log that a test can read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(want string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), want)
}

// run runs the coordinator again, until stop.
func (h *harness) run(log *logged) (ended chan error, stop func()) {
	h.t.Helper()
	c, err := coordinator.New(h.Config, coordinator.Deps{Guest: h.Guest, Platform: h.Platform, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	ended = make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return ended, cancel
}

// TestGEN01_GEN02_GEN05_ACoordinatorServesItsClusterIDOnly: with a real Consul it records its new
// cluster ID and proves it to operators and other coordinators. With a disk of another cluster ID,
// or with its records lost, it halts.
func TestGEN01_GEN02_GEN05_ACoordinatorServesItsClusterIDOnly(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	h := newHarness(t)
	t.Cleanup(h.Platform.Close)
	log := &logged{}
	ended, stop := h.run(log)
	defer stop()
	api := h.dial(h.OperatorToken)
	var info *apiv1.GetClusterResponse
	h.Eventually("the first answer", func() (err error) {
		info, err = api.GetCluster(api.ctx, &apiv1.GetClusterRequest{})
		return err
	})
	h.Eventually("a leader", func() error {
		if !log.has("lease taken") {
			return errors.New("no coordinator has confirmed it")
		}
		return nil
	})
	kept, err := bootstrap.Load(h.Config.StateDir)
	if err != nil || kept.ClusterID == "" || !kept.Recorded || info.GetClusterId() != kept.ClusterID {
		t.Errorf("the disk has %+v (%v), the API says %q", kept, err, info.GetClusterId())
	}
	proof, err := api.AttestCoordinator(t.Context(), &apiv1.AttestCoordinatorRequest{Nonce: bytes.Repeat([]byte{5}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if said, err := statement.DecodeCoordinator(proof.GetStatement()); err != nil || said.ClusterID != kept.ClusterID {
		t.Errorf("to an operator: %+v, %v", said, err)
	}
	boot, err := bootstrap.NewBoot()
	if err != nil {
		t.Fatal(err)
	}
	asker := &bootstrap.Asker{
		Cluster: "demo", AppID: wholetest.CoordinatorApp, Gateway: h.Config.Gateway, Boot: boot, Verifier: h.Verifier,
		Images: h.Config.Trust.ImagePolicy(), Now: time.Now,
	}
	if got, err := asker.Ask(t.Context(), wholetest.CoordinatorApp, "coordinator-0"); err != nil || got != kept.ClusterID {
		t.Errorf("to another coordinator: %q, %v", got, err)
	}
	halt(t, ended, stop)

	// Its disk has another cluster ID than the records.
	second := bootstrap.Stored{ClusterID: "fedcba9876543210fedcba9876543210"}
	h.keep(second)
	h.halts("GENESIS_CONFLICT: the records are of cluster ID "+kept.ClusterID, second.ClusterID)

	// The records are lost: this is no new cluster.
	h.keep(kept)
	if err := os.RemoveAll(filepath.Join(h.Config.StateDir, "consul")); err != nil {
		t.Fatal(err)
	}
	h.halts("STATE_ROLLBACK_DETECTED", kept.ClusterID)
}

// halts runs the coordinator until it exits without having led, with an error that contains all of
// wants.
func (h *harness) halts(wants ...string) {
	h.t.Helper()
	log := &logged{}
	ended, stop := h.run(log)
	defer stop()
	select {
	case err := <-ended:
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				h.t.Errorf("it ends with %v, want %s", err, want)
			}
		}
	case <-time.After(time.Minute):
		h.t.Errorf("it goes on, want %v", wants)
		halt(h.t, ended, stop)
	}
	if log.has("lease taken") {
		h.t.Errorf("it led before it halted, want %v", wants)
	}
}

func (h *harness) keep(kept bootstrap.Stored) {
	h.t.Helper()
	text, err := json.Marshal(kept)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.Config.StateDir, "cluster-id.json"), text, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func halt(t *testing.T, ended chan error, stop func()) {
	t.Helper()
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("stop: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the coordinator did not stop")
	}
}
