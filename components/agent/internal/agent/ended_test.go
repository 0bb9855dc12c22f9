package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// serve runs Boots one after the other, as the command does.
func (a *testAgent) serve() {
	a.t.Helper()
	a.cfg.Log = slog.New(slog.DiscardHandler)
	if os.Getenv("AGENT_TEST_LOG") != "" {
		a.cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, a.cfg) }()
	a.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			a.t.Errorf("agent ended: %v", err)
		}
	})
}

func (a *testAgent) exists(name string) bool {
	_, err := os.Stat(filepath.Join(a.cfg.MeshDir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.t.Fatal(err)
	}
	return err == nil
}

// lossWorld has one agent whose workloads may start, and admissions that the test can delay, so
// that the test sees the state of a Boot without a Slot.
func lossWorld(t *testing.T, prepare func(*agenttest.Coordinator)) (*agenttest.Coordinator, *testAgent, *atomic.Bool) {
	t.Helper()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	var closed atomic.Bool
	c.Refuse = func() error {
		if closed.Load() {
			return errors.New("INSTANCE_CONFLICT: another boot holds the slot")
		}
		return nil
	}
	if prepare != nil {
		prepare(c)
	}
	c.Start(t)
	c.Order(&controlv1.Desired{Version: 10, Term: 3, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})})
	a := newTestAgent(t, w)
	a.serve()
	agenttest.Eventually(t, soon, "workloads may start", func() bool { return a.exists("ready") && c.Last().GetMemberKnown() })
	return c, a, &closed
}

// wantGivenUp: the agent has removed all state of the Slot, and requests admission as another Boot
// once the Slot is free.
func wantGivenUp(t *testing.T, c *agenttest.Coordinator, a *testAgent, closed *atomic.Bool) {
	t.Helper()
	agenttest.Eventually(t, soon, "the slot is given up", func() bool {
		return !a.exists("ready") && !a.exists("secrets/password") && !a.exists("consul-token")
	})
	agenttest.Eventually(t, soon, "the agent is not ready", func() bool {
		code, _ := a.call("GET", "/readyz", "")
		return code == http.StatusServiceUnavailable
	})
	if got := c.Boots(); len(got) != 1 {
		t.Fatalf("admitted %d times before the slot was free", len(got))
	}
	closed.Store(false)
	agenttest.Eventually(t, 2*soon, "another boot is admitted and ready", func() bool { return len(c.Boots()) == 2 && a.exists("ready") })
	if got := c.Boots(); got[0] == got[1] {
		t.Error("the boot that lost the slot came back under its name")
	}
}

// TestIDN04_ANotifiedBootStopsBeingItsSlotAtOnce: by the coordinator's message.
func TestIDN04_ANotifiedBootStopsBeingItsSlotAtOnce(t *testing.T) {
	t.Parallel()
	c, a, closed := lossWorld(t, nil)
	closed.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	started := time.Now()
	_, err := c.Agent().Wake(ctx, &controlv1.WakeRequest{Term: 1, EndedCode: "INCARNATION_STALE", EndedMessage: "another boot holds it"})
	// The answer may be lost with the session, which ends because of it at either side.
	if err != nil && status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Fatal(err)
	}
	agenttest.Eventually(t, soon, "the ready file goes", func() bool { return !a.exists("ready") })
	t.Logf("given up %v after the notice", time.Since(started).Round(time.Millisecond))
	wantGivenUp(t, c, a, closed)
}

// TestIDN04_AResumedBootWithoutSessionsLearnsWhy: no coordinator can notify a paused Boot. When
// the Boot resumes, its sessions are gone and it gets no new one. So the Boot asks.
func TestIDN04_AResumedBootWithoutSessionsLearnsWhy(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	c, a, closed := lossWorld(t, func(c *agenttest.Coordinator) {
		c.Lost = func() *admissionv1.AdmissionStatusResponse {
			if lost.Load() {
				return &admissionv1.AdmissionStatusResponse{Code: "INCARNATION_STALE", Message: "this boot does not hold the slot any more"}
			}
			return nil
		}
	})
	closed.Store(true)
	lost.Store(true)
	c.Drop()
	wantGivenUp(t, c, a, closed)
}

// TestACutOffBootKeepsItsSlot: coordinators that cannot be reached, or that answer
// that it still is the Slot, change nothing.
func TestACutOffBootKeepsItsSlot(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	c, a, _ := lossWorld(t, func(c *agenttest.Coordinator) {
		c.Lost = func() *admissionv1.AdmissionStatusResponse { asked <- struct{}{}; return nil }
	})
	c.Drop()
	select {
	case <-asked:
	case <-time.After(soon):
		t.Fatal("it did not ask")
	}
	if !a.exists("ready") || len(c.Boots()) != 1 {
		t.Error("a boot that still is its slot gave it up")
	}
}

func TestOnlyAnEndedBootStartsOver(t *testing.T) {
	if err := admit.OnlyEnded(errors.Join(errors.New("x"), &admit.EndedError{Code: "PEER_REVOKED"})); err == nil {
		t.Error("an ended boot was not recognised")
	}
	if err := admit.OnlyEnded(context.Canceled); err != nil {
		t.Error(err)
	}
}
