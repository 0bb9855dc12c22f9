package agent

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// smallDisk is a preserved disk of a few blocks, or the test is skipped.
func smallDisk(t *testing.T) (dir string, fill, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("skipped: a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	fill = func() {
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close() //nolint:errcheck // nothing in it counts
		for block := make([]byte, 4096); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return dir, fill, func() { _ = os.Remove(ballast) }
}

func drain(id string) *controlv1.OperationOrder {
	return &controlv1.OperationOrder{OperationId: id, Verb: controlv1.Verb_VERB_DRAIN, Attempt: 1}
}

// TestOrdersAreObeyedWithAFullDisk: of a new leader too, and the fault is in every report
// until the disk has room; then nothing is lost.
func TestOrdersAreObeyedWithAFullDisk(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	hooked := group.AgentConfig{
		Workload:       group.Workload{Kind: "none"},
		LifecycleHooks: []group.LifecycleHook{{Name: "flush", Transition: group.PreTerminate, Wait: &group.WaitAction{}}},
	}
	c.Order(&controlv1.Desired{Version: 1, Term: 3, State: 5, ConfigJson: config(t, hooked)})
	a := newTestAgent(t, w)
	dir, fill, free := smallDisk(t)
	a.cfg.StateDir = dir
	a.start()
	agenttest.Eventually(t, soon, "a report without faults", func() bool { return c.Last().GetState() == 5 && len(c.Last().GetFaults()) == 0 })
	fill()

	c.Order(&controlv1.Desired{Version: 2, Term: 4, State: 6, ConfigJson: config(t, hooked), Operation: drain("op-1")})
	completeHook(t, a, "flush", "CONTINUE")
	agenttest.Eventually(t, soon, "the drain is done and the fault is reported", func() bool {
		r := c.Last()
		return step(r, "op-1").GetState() == controlv1.StepState_STEP_STATE_DONE && r.GetTerm() == 4 && r.GetState() == 6 &&
			len(r.GetFaults()) == 2 && strings.Contains(r.GetFaults()[0], "operations.json: no space left on device") &&
			strings.Contains(r.GetFaults()[1], "term.json: no space left on device")
	})
	// State kept in memory counts the same as state on a disk.
	c.Order(&controlv1.Desired{Version: 3, Term: 3, State: 9, ConfigJson: config(t, hooked), Operation: drain("op-old")})
	c.Order(&controlv1.Desired{Version: 4, Term: 4, State: 7, ConfigJson: config(t, hooked), Operation: drain("op-1")})
	agenttest.Eventually(t, soon, "the next order is seen", func() bool { return c.Last().GetDesiredVersion() == 4 })
	if r := c.Last(); step(r, "op-old") != nil || step(r, "op-1").GetState() != controlv1.StepState_STEP_STATE_DONE {
		t.Errorf("steps %v", r.GetSteps())
	}
	free()
	agenttest.Eventually(t, 3*soon, "the fault is gone", func() bool { return len(c.Last().GetFaults()) == 0 })
	a.stop()
	a.start()
	agenttest.Eventually(t, soon, "the next boot knows it all", func() bool {
		r := c.Last()
		return len(c.Boots()) == 2 && r.GetTerm() == 4 && step(r, "op-1").GetState() == controlv1.StepState_STEP_STATE_DONE
	})
}

// TestAnAgentStartsWithAFullDisk: a boot on a full disk serves all the same; its pins were written
// at its first admission.
func TestAnAgentStartsWithAFullDisk(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	plain := group.AgentConfig{Workload: group.Workload{Kind: "none"}}
	c.Order(&controlv1.Desired{Version: 1, Term: 3, State: 5, ConfigJson: config(t, plain)})
	a := newTestAgent(t, w)
	dir, fill, _ := smallDisk(t)
	a.cfg.StateDir = dir
	a.start()
	agenttest.Eventually(t, soon, "a first boot", func() bool { return c.Last().GetState() == 5 })
	a.stop()
	fill()
	c.Order(&controlv1.Desired{Version: 2, Term: 4, State: 6, ConfigJson: config(t, plain), Operation: drain("op-1")})
	a.start()
	agenttest.Eventually(t, soon, "the next boot obeys", func() bool {
		return step(c.Last(), "op-1").GetState() == controlv1.StepState_STEP_STATE_DONE && len(c.Last().GetFaults()) == 2
	})
}

// TestGEN02_AFirstAdmissionNeedsADiskThatKeepsIt: with a pin only in memory, any cluster could take
// the CVM over at its next boot.
func TestGEN02_AFirstAdmissionNeedsADiskThatKeepsIt(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	a := newTestAgent(t, w)
	dir, fill, free := smallDisk(t)
	a.cfg.StateDir = dir
	fill()
	a.start()
	agenttest.Eventually(t, soon, "two admissions that were not taken", func() bool { return len(c.Boots()) >= 2 })
	if code, _ := a.call("GET", "/readyz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("readyz = %d without a disk that keeps the cluster ID", code)
	}
	free()
	agenttest.Eventually(t, 3*soon, "admission once the disk has room", func() bool {
		return len(c.Reports()) > 0
	})
}
