package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// restartable is a compose text with a service that takes no commands and may be restarted.
const restartable = `services:
  cadre:
    image: agent
    volumes: [exec-db:/run/cadre-exec/db]
  db:
    image: db
    command: [/run/mesh/exec, --, db]
    volumes: [exec-db:/run/cadre-exec]
    x-cadre:
      exec: {}
  web:
    image: web
volumes:
  exec-db:
    driver_opts: { type: tmpfs, device: tmpfs }
`

// TestR115_TheAgentRestartsAService covers the whole path from a coordinator's order to the
// process, with the real agent and the real init. The container stays, the next Boot does not
// repeat a completed order, and a service is restarted only if the compose text allows it.
func TestR115_TheAgentRestartsAService(t *testing.T) {
	t.Parallel()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil || os.Getuid() != 0 {
		t.Skip("a container with /run/cadre-exec needs bubblewrap and root")
	}
	w := agenttest.NewWorld(t)
	w.Services = restartable
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	version := uint64(0)
	order := func(operation, service string) {
		version++
		d := &controlv1.Desired{Version: version, Term: 1, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})}
		if operation != "" {
			d.Operation = &controlv1.OperationOrder{OperationId: operation, Verb: controlv1.Verb_VERB_RESTART_SERVICE, Attempt: 1, Service: service}
		}
		c.Order(d)
	}
	order("", "")
	a := newTestAgent(t, w)
	a.cfg.ExecBinary = agenttest.ExecProgram(t)
	folder, runs := filepath.Join(a.cfg.ExecDir, "db"), filepath.Join(t.TempDir(), "runs")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	a.start()
	program := filepath.Join(a.cfg.MeshDir, "exec")
	agenttest.Eventually(t, soon, "the agent put the program there", func() bool { _, err := os.Stat(program); return err == nil })
	container := exec.CommandContext(t.Context(), bwrap, "--dev-bind", "/", "/", "--tmpfs", "/run", "--bind", folder, "/run/cadre-exec", "--die-with-parent", "--unshare-pid", "--as-pid-1", "--proc", "/proc",
		"--", program, "--", "sh", "-c", `echo "$CADRE_SLOT" >> "$0"; exec sleep 600`, runs)
	if err := container.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = container.Wait() }()
	t.Cleanup(func() { _ = container.Process.Kill(); <-ended })
	ran := func() int {
		data, _ := os.ReadFile(runs)
		return strings.Count(string(data), "web-0\n")
	}
	reported := func(operation string) (controlv1.StepState, string) {
		for _, s := range c.Last().GetSteps() {
			if s.GetOperationId() == operation && s.GetVerb() == controlv1.Verb_VERB_RESTART_SERVICE {
				return s.GetState(), s.GetMessage()
			}
		}
		return 0, ""
	}
	agenttest.Eventually(t, soon, "the workload runs", func() bool { return ran() == 1 })
	order("op1", "db")
	agenttest.Eventually(t, soon, "the service was restarted, and the report says so", func() bool {
		state, _ := reported("op1")
		return state == controlv1.StepState_STEP_STATE_DONE && ran() == 2
	})
	order("op2", "web")
	agenttest.Eventually(t, soon, "an undeclared service is rejected", func() bool {
		state, message := reported("op2")
		return state == controlv1.StepState_STEP_STATE_FAILED && strings.Contains(message, "EXEC_FORBIDDEN")
	})
	a.stop()
	order("op1", "db")
	a.start()
	agenttest.Eventually(t, soon, "the next boot answers from its memory", func() bool {
		state, _ := reported("op1")
		return state == controlv1.StepState_STEP_STATE_DONE
	})
	if n := ran(); n != 2 {
		t.Errorf("the workload ran %d times", n)
	}
	select {
	case <-ended:
		t.Error("its container ended: " + fmt.Sprint(container.ProcessState))
	default:
	}
}
