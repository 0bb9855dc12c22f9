package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// openToOperators opens the log of the light group's service, and declares a command for operators.
const openToOperators = `<<EOT
    x-cadre:
      logs: true
      commands:
        refuse: [python3, -c, "import sys; print('refused'); sys.exit(3)"]
EOT
`

// withCommands is the light group's file with a hook and a check that name commands of
// compose/light.yaml, and with openToOperators.
func (c *cluster) withCommands(t *testing.T, hook string) string {
	return c.edited(t, "compose = templatefile(", "compose = replace(templatefile(",
		"      trust       = local.trust\n    })", "      trust       = local.trust\n    }), \"    x-cadre:\\n\", "+openToOperators+")",
		`  health_check "web" {`, `  lifecycle_hook "farewell" {
    transition   = "PRE_TERMINATE"
    max_duration = "30s"
    exec {
      service = "web"
      command = "`+hook+`"
    }
  }

  health_check "page" {
    exec {
      service = "web"
      command = "page"
    }
    check_interval_sec = 2
    timeout_sec        = 2
  }

  health_check "web" {`)
}

// TestHK03_HK07_CommandsRunInTheWorkloadsContainer: a hook and a check by name. The check's file is
// in no other container, the hook writes one line for each Operation to the workload's disk, and
// its output is in no log and no answer.
func TestHK03_HK07_CommandsRunInTheWorkloadsContainer(t *testing.T) {
	c := ready(t)
	if out, err := c.ApplyLight(within(t, time.Minute), c.withCommands(t, "sh"), c.next()); err == nil ||
		!strings.Contains(out+err.Error(), `lifecycle_hook["farewell"].exec.command`) {
		t.Fatalf("a command that is not declared: %v\n%s", err, out)
	}
	file := c.withCommands(t, "farewell")
	c.left = "hooks"
	for range 2 { // the first brings the hook, the second runs it in every Slot
		if _, err := c.ApplyLight(within(t, rollTime), file, c.next()); err != nil {
			t.Fatal(err)
		}
		c.complete(t, rig.Light)
	}
	c.wantOneCallPerStep(t, rig.Light)
	rollouts, err := c.api.Rollouts(within(t, time.Minute), rig.Light)
	if err != nil {
		t.Fatal(err)
	}
	for _, slot := range slots(rig.Light) {
		out, err := c.Exec(within(t, 30*time.Second), c.PlatformName(slot), "web", "cat", "/var/lib/web/farewells")
		if err != nil {
			t.Errorf("%s: %v", slot, err)
		}
		for _, op := range c.steps(within(t, time.Minute), t, slot, rollouts[0].ID) {
			if op.Phase == operation.Done && strings.Count(out, slot+" "+op.ID+"\n") != 1 {
				t.Errorf("%s: the hook of %s was not run once:\n%s", slot, op.ID, out)
			}
		}
		eventually(t, "the check passes in "+slot, time.Minute, func(ctx context.Context) error {
			out, err := c.Exec(ctx, c.PlatformName(slot), "web", "python3", "-c",
				`import urllib.request as u; print(u.urlopen("http://127.0.0.1:7070/v1/instance").read().decode())`)
			if err != nil || !strings.Contains(strings.ReplaceAll(out, " ", ""), `"name":"page","health":"healthy"`) {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	_, ours := c.inside(t)
	agents := 0
	for _, p := range ours {
		if p.program != "cadre-agent" {
			continue
		}
		agents++
		if _, err := os.Stat(p.path("srv/web/index.html")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the page is in an agent's container too: %v", err)
		}
	}
	if agents < len(slots(rig.Light)) {
		t.Errorf("%d processes of agents were looked at", agents)
	}
	c.sinks(t, func(sink string, text []byte) {
		if bytes.Contains(text, []byte("for-debug-logs-only")) {
			t.Errorf("%s has the hook's output", sink)
		}
	})
	c.logsAndCommands(t)
}
