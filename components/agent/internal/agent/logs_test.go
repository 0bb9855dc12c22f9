package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	"cadre.dev/exec/logring"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

const openLogs = `services:
  cadre:
    image: agent
    volumes: [exec-db:/run/cadre-exec/db]
  db:
    image: db
    command: [/run/mesh/exec, --, db]
    volumes: [exec-db:/run/cadre-exec]
    x-cadre:
      logs: true
      commands:
        hello: [sh, -c, "echo hello; echo world >&2; exit 3"]
        large: [head, -c, "3000000", /dev/zero]
        hang: [sh, -c, "echo begun; exec sleep 600"]
  web:
    image: web
volumes:
  exec-db:
    driver_opts: { type: tmpfs, device: tmpfs }
`

// received reads a stream of logs up to its end, or until enough is true.
func received(stream grpc.ServerStreamingClient[controlv1.LogsResponse], err error, enough func(string) bool) (string, error) {
	text := ""
	for err == nil {
		var r *controlv1.LogsResponse
		if r, err = stream.Recv(); err == nil {
			text += string(r.GetData())
		}
		if enough != nil && enough(text) {
			return text, nil
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text, err
}

// run collects a command's output and its end.
func run(stream grpc.ServerStreamingClient[controlv1.RunCommandResponse], err error) (string, *controlv1.CommandEnd, error) {
	text := ""
	for err == nil {
		var r *controlv1.RunCommandResponse
		if r, err = stream.Recv(); err != nil {
			break
		}
		if text += string(r.GetOutput()); r.GetEnd() != nil {
			return text, r.GetEnd(), nil
		}
	}
	return text, nil, err
}

// TestOperatorsReadLogsAndRunDeclaredCommands covers the whole path from a coordinator's call to the
// process, with the real agent and the real init.
func TestOperatorsReadLogsAndRunDeclaredCommands(t *testing.T) {
	t.Parallel()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil || os.Getuid() != 0 {
		t.Skip("a container with /run/cadre-exec needs bubblewrap and root")
	}
	w := agenttest.NewWorld(t)
	w.Services = openLogs
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	c.Order(&controlv1.Desired{Version: 1, Term: 1, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})})
	a := newTestAgent(t, w)
	a.cfg.ExecBinary = agenttest.ExecProgram(t)
	a.cfg.OwnLog = &logring.Ring{}
	_, _ = a.cfg.OwnLog.Write([]byte("first\nown line\n"))
	folder := filepath.Join(a.cfg.ExecDir, "db")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	a.start()
	program := filepath.Join(a.cfg.MeshDir, "exec")
	agenttest.Eventually(t, soon, "the agent put the program there", func() bool { _, err := os.Stat(program); return err == nil })
	container := exec.CommandContext(t.Context(), bwrap, "--dev-bind", "/", "/", "--tmpfs", "/run", "--bind", folder, "/run/cadre-exec", "--die-with-parent", "--unshare-pid", "--as-pid-1", "--proc", "/proc",
		"--", program, "--", "sh", "-c", `echo one; echo "I am $CADRE_SLOT"; exec sleep 600`)
	if err := container.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = container.Wait() }()
	t.Cleanup(func() { _ = container.Process.Kill(); <-ended })
	agenttest.Eventually(t, soon, "the agent is connected", func() bool { return c.Agent() != nil })
	agent := c.Agent()
	logs := func(ctx context.Context, r *controlv1.LogsRequest, enough func(string) bool) (string, error) {
		stream, err := agent.Logs(ctx, r)
		return received(stream, err, enough)
	}
	agenttest.Eventually(t, soon, "the service's output is there", func() bool {
		text, err := logs(t.Context(), &controlv1.LogsRequest{}, nil)
		return err == nil && text == "one\nI am web-0\n"
	})
	if text, err := logs(t.Context(), &controlv1.LogsRequest{Service: "db", Lines: 1}, nil); err != nil || text != "I am web-0\n" {
		t.Errorf("the last line: %q, %v", text, err)
	}
	if text, err := logs(t.Context(), &controlv1.LogsRequest{Service: "cadre-agent", Lines: 1}, nil); err != nil || text != "own line\n" {
		t.Errorf("the agent's own log: %q, %v", text, err)
	}
	if _, err := logs(t.Context(), &controlv1.LogsRequest{Service: "web"}, nil); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "db, cadre-agent") {
		t.Errorf("a service with closed logs: %v", err)
	}

	text, end, err := run(agent.RunCommand(t.Context(), &controlv1.RunCommandRequest{Service: "db", Command: "hello"}))
	if err != nil || end.GetCode() != 3 || text != "hello\nworld\n" {
		t.Errorf("%q, %v, %v", text, end, err)
	}
	text, end, err = run(agent.RunCommand(t.Context(), &controlv1.RunCommandRequest{Service: "db", Command: "large"}))
	if err != nil || end.GetCode() != 0 || len(text) != 1<<20 || end.GetDropped() != 3000000-1<<20 {
		t.Errorf("a large output: %d bytes, %v, %v", len(text), end, err)
	}
	text, end, err = run(agent.RunCommand(t.Context(), &controlv1.RunCommandRequest{Service: "db", Command: "hang", Limit: durationpb.New(100 * time.Millisecond)}))
	if err != nil || end.GetCode() != 124 {
		t.Errorf("a command above its time: %q, %v, %v", text, end, err)
	}
	for name, r := range map[string]*controlv1.RunCommandRequest{
		"hello, large": {Service: "db", Command: "rm"}, "services that do: db": {Service: "web", Command: "hello"}, "10m": {Service: "db", Command: "hello", Limit: durationpb.New(time.Hour)},
	} {
		if _, _, err := run(agent.RunCommand(t.Context(), r)); err == nil || !strings.Contains(err.Error(), strings.Split(name, ", ")[0]) {
			t.Errorf("%v: %v", r, err)
		}
	}

	// Places are bounded, and free again when callers go away.
	ctx, cancel := context.WithCancel(t.Context())
	for range 8 {
		if _, err := logs(ctx, &controlv1.LogsRequest{Service: "db", Follow: true}, func(s string) bool { return s != "" }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := logs(t.Context(), &controlv1.LogsRequest{Service: "db"}, nil); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one reader more: %v", err)
	}
	cancel()
	agenttest.Eventually(t, soon, "a free place", func() bool {
		_, err := logs(t.Context(), &controlv1.LogsRequest{Service: "db"}, nil)
		return err == nil
	})
	ctx, cancel = context.WithCancel(t.Context())
	for range 4 {
		stream, err := agent.RunCommand(ctx, &controlv1.RunCommandRequest{Service: "db", Command: "hang"})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := run(agent.RunCommand(t.Context(), &controlv1.RunCommandRequest{Service: "db", Command: "hello"})); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one command more: %v", err)
	}
	cancel()
	agenttest.Eventually(t, soon, "the commands have ended with their callers", func() bool {
		_, _, err := run(agent.RunCommand(t.Context(), &controlv1.RunCommandRequest{Service: "db", Command: "hello"}))
		return err == nil
	})
}
