package agent

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	"cadre.dev/exec/declared"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// watched is a log in which a test waits for lines.
type watched struct{ lines chan string }

func (w *watched) Write(p []byte) (int, error) {
	select {
	case w.lines <- string(p):
	default: // the test needs no more than these
	}
	return len(p), nil
}

// await returns once a line with text was written.
func (w *watched) await(t *testing.T, text string) {
	t.Helper()
	agenttest.Eventually(t, soon, "the log says "+text, func() bool {
		select {
		case line := <-w.lines:
			return strings.Contains(line, text)
		default:
			return false
		}
	})
}

// TestABootWithCoordinatorsAwayEndsInARunningWorkload: the workload starts first, then the agent,
// then a coordinator, in any timing. No process is started twice.
func TestABootWithCoordinatorsAwayEndsInARunningWorkload(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	a := newTestAgent(t, w)
	a.cfg.ExecBinary = agenttest.ExecProgram(t)
	log := &watched{lines: make(chan string, 1000)}
	a.log = slog.New(slog.NewTextHandler(log, nil))

	came := filepath.Join(t.TempDir(), "came")
	script := strings.ReplaceAll(declared.Script, "/run/mesh", a.cfg.MeshDir)
	workload := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, "exec.sh", "--", "/bin/sh", "-c", `echo "$CADRE_SLOT" > "$0"`, came)
	workload.Stderr = os.Stderr
	if err := workload.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- workload.Wait() }()

	a.start()
	log.await(t, "admission is waiting")
	select {
	case err := <-ended:
		t.Fatalf("the workload ended while coordinators are away: %v", err)
	default:
	}
	c := agenttest.NewCoordinator(w)
	c.Order(&controlv1.Desired{Version: 1, Term: 1, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})})
	c.Start(t)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if slot, err := os.ReadFile(came); err != nil || string(slot) != "web-0\n" {
		t.Errorf("the workload ran as %q, %v", slot, err)
	}
}
