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
	"cadre.dev/coordinator/internal/founding"
	"cadre.dev/coordinator/internal/testnet"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// logged is a log that a test waits for a line in.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(want string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.Contains(l.text.String(), want) {
		return errors.New("the log does not say " + want)
	}
	return nil
}

// run runs the coordinator once more, until stop.
func (h *harness) run(log *logged) (ended chan error, stop func()) {
	h.t.Helper()
	c, err := coordinator.New(h.config, coordinator.Deps{Guest: h.guest, Platform: h.platform, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	ended = make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return ended, cancel
}

// TestGEN01_GEN02_ACoordinatorServesItsFoundingOnly: with a real Consul it records what it
// founds and proves it to operators, agents and other coordinators; with its records lost
// it halts, and with another founding's disk it serves nothing.
func TestGEN01_GEN02_GEN05_ACoordinatorServesItsFoundingOnly(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	h := newHarness(t)
	t.Cleanup(h.platform.close)
	log := &logged{}
	ended, stop := h.run(log)
	api := h.dial(h.operatorToken)
	var info *apiv1.GetClusterResponse
	h.eventually("the first answer", func() (err error) {
		info, err = api.GetCluster(api.ctx, &apiv1.GetClusterRequest{})
		return err
	})
	kept, err := founding.Load(h.config.StateDir)
	if err != nil || kept.Founding == "" || !kept.Recorded || info.GetFounding() != kept.Founding {
		t.Errorf("the disk has %+v (%v), the API says %q", kept, err, info.GetFounding())
	}
	proof, err := api.AttestCoordinator(t.Context(), &apiv1.AttestCoordinatorRequest{Nonce: bytes.Repeat([]byte{5}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if said, err := statement.DecodeCoordinator(proof.GetStatement()); err != nil || said.Founding != kept.Founding {
		t.Errorf("to an operator: %+v, %v", said, err)
	}
	boot, err := founding.NewBoot()
	if err != nil {
		t.Fatal(err)
	}
	asker := &founding.Asker{
		Cluster: "demo", AppID: coordinatorApp, Gateway: h.config.Gateway, Boot: boot, Verifier: h.verifier,
		Images: h.config.Trust.ImagePolicy(), Now: time.Now,
	}
	if got, err := asker.Ask(t.Context(), coordinatorApp, "coordinator-0"); err != nil || got != kept.Founding {
		t.Errorf("to another coordinator: %q, %v", got, err)
	}
	halt(t, ended, stop)

	// Its disk says another founding: the records do not even take its token.
	second := founding.Kept{Founding: "fedcba9876543210fedcba9876543210", Recorded: true}
	h.keep(second)
	log = &logged{}
	ended, stop = h.run(log)
	h.eventually("the refusal", func() error { return log.has("its records are of another founding than this coordinator's disk") })
	if got, err := asker.Ask(t.Context(), coordinatorApp, "coordinator-0"); err != nil || got != second.Founding {
		t.Errorf("to another coordinator: %q, %v", got, err)
	}
	if err := log.has("lease taken"); err == nil {
		t.Error("it leads over records of another founding")
	}
	halt(t, ended, stop)

	// The records are lost: this is no new cluster.
	h.keep(kept)
	if err := os.RemoveAll(filepath.Join(h.config.StateDir, "consul")); err != nil {
		t.Fatal(err)
	}
	ended, stop = h.run(&logged{})
	defer stop()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "STATE_ROLLBACK_DETECTED") || !strings.Contains(err.Error(), kept.Founding) {
			t.Errorf("with its records lost: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("with its records lost it goes on")
		halt(t, ended, stop)
	}
}

func (h *harness) keep(kept founding.Kept) {
	h.t.Helper()
	text, err := json.Marshal(kept)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.config.StateDir, "founding.json"), text, 0o600); err != nil {
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
