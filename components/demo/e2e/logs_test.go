package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/demo/internal/rig"
)

// rings scans the logs that agents and coordinators keep for operators.
func (c *cluster) rings(t *testing.T, scan func(sink string, text []byte)) {
	t.Helper()
	logs := []client.LogOptions{}
	for n := range rig.Coordinators {
		logs = append(logs, client.LogOptions{Slot: fmt.Sprintf("coordinator-%d", n)})
	}
	for _, slot := range slots(rig.Light) {
		logs = append(logs, client.LogOptions{Slot: slot, Service: "cadre-agent"})
	}
	for _, o := range logs {
		text, err := c.log(within(t, 30*time.Second), o)
		if err != nil {
			t.Errorf("the log of %s %s: %v", o.Slot, o.Service, err)
		}
		scan("log of "+o.Slot+" "+o.Service, text)
	}
}

// log returns the kept lines of a log.
func (c *cluster) log(ctx context.Context, o client.LogOptions) ([]byte, error) {
	var text bytes.Buffer
	err := c.api.Logs(ctx, o, func(_ uint64, data []byte) error {
		text.Write(data)
		return nil
	})
	return text.Bytes(), err
}

// logsAndCommands: an operator reads the log of a service, of an agent and of each coordinator,
// follows a log, and runs a command, all through the gateway.
func (c *cluster) logsAndCommands(t *testing.T) {
	t.Helper()
	for n := range rig.Coordinators {
		slot := fmt.Sprintf("coordinator-%d", n)
		text, err := c.log(within(t, time.Minute), client.LogOptions{Slot: slot})
		if err != nil || !bytes.Contains(text, []byte(`"slot":"`+slot+`"`)) || !bytes.Contains(text, []byte("coordinator started")) {
			t.Errorf("%s: %v, %d bytes", slot, err, len(text))
		}
	}
	slot := slots(rig.Light)[0]
	if text, err := c.log(within(t, time.Minute), client.LogOptions{Slot: slot, Service: "cadre-agent"}); err != nil || !bytes.Contains(text, []byte("agent started")) {
		t.Errorf("the agent: %v\n%s", err, text)
	}
	if text, err := c.Cadre(within(t, time.Minute), "logs", slot, "--tail", "2"); err != nil || strings.Count(text, "GET /index.html") != 2 {
		t.Errorf("the service: %v\n%s", err, text)
	}
	// The health check makes the service write a line each second.
	enough, text := errors.New("enough"), ""
	err := c.api.Logs(within(t, time.Minute), client.LogOptions{Slot: slot, Service: "web", Lines: 1, Follow: true}, func(_ uint64, data []byte) error {
		if text += string(data); strings.Count(text, "\n") >= 4 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("following: %v\n%s", err, text)
	}
	output, err := c.Cadre(within(t, time.Minute), "instance", "run", slot, "web", "refuse")
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(output, "refused\n") {
		t.Errorf("a command: %v, %q", err, output)
	}
	if _, err = c.api.RunCommand(within(t, time.Minute), slot, "web", "farewell", time.Minute, nil); client.KindOf(err) != client.Invalid || !strings.Contains(err.Error(), "it declares: refuse") {
		t.Errorf("a command of hooks: %v", err)
	}
}
