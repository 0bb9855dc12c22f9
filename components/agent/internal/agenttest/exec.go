package agenttest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cadre.dev/exec/call"
)

// ExecProgram builds cadre-exec, as it is in the agent's image: static.
func ExecProgram(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cadre-exec")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, "cadre.dev/exec/cmd/cadre-exec")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build cadre-exec: %v\n%s", err, out)
	}
	return path
}

// ServeCommands answers the agent's commands for a service, in its folder dir.
func ServeCommands(t testing.TB, dir string, answer func(call.Request) call.Reply) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a test's folder
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, call.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close() //nolint:errcheck // answered
				req, err := call.ReadRequest(conn)
				if err != nil {
					t.Errorf("request: %v", err)
					return
				}
				_ = call.WriteReply(conn, answer(req)) // the agent may be gone
			}()
		}
	}()
}
