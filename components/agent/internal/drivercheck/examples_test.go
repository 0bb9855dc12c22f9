package drivercheck

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// toy is the workload of the guide's examples: three voters with an admin API.
type toy struct {
	mu     sync.Mutex
	leader string // guarded by mu
	term   int    // guarded by mu
}

func (w *toy) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	members := []string{"k-0", "k-1", "k-2"}
	var q struct{ To string }
	if in.Method == http.MethodPost {
		if err := json.NewDecoder(in.Body).Decode(&q); err != nil || in.URL.Path != "/lead" || !slices.Contains(members, q.To) {
			out.WriteHeader(http.StatusBadRequest)
			return
		}
		w.leader, w.term = q.To, w.term+1
	}
	_ = json.NewEncoder(out).Encode(map[string]any{"leader": w.leader, "term": w.term, "synced": true, "members": members})
}

// example is a file under docs/examples/drivers.
func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../../../docs/examples/drivers", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// passes runs the suite against an example whose workload lives, hands over, and then goes down.
func passes(t *testing.T, workload *httptest.Server, args ...string) {
	t.Helper()
	run := func(wantCode int, want string) {
		t.Helper()
		var out bytes.Buffer
		code := Command(t.Context(), append([]string{"check", "-slot", "k-0", "-voters", "-transfer", "-drain", "-budget", "1m"}, args...), os.Getenv, &out, &out)
		if code != wantCode || !strings.Contains(out.String(), want) {
			t.Errorf("%d, want %d and %q:\n%s", code, wantCode, want, out.String())
		}
	}
	run(0, "ok    leadership moves and is confirmed: to k-1, epoch 2")
	run(0, "run it at k-1")
	workload.Close()
	run(1, `FAIL  member is alive and has a role: liveness is "refused"`)
}

func newToy(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(&toy{leader: "k-0", term: 1})
	t.Cleanup(server.Close)
	t.Setenv("ADMIN", server.URL)
	t.Setenv("CADRE_SLOT", "k-0")
	return server
}

func TestTheExampleInShellPasses(t *testing.T) {
	for _, program := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not here: scripts/tools.sh run installs it", program)
		}
	}
	var commands strings.Builder
	for _, name := range []string{"member", "transfer", "drain", "undrain"} {
		fmt.Fprintf(&commands, "        %s: [%s, %s]\n", name, example(t, "adapter.sh"), name)
	}
	compose := filepath.Join(t.TempDir(), "compose.yaml")
	text := `services:
  cadre:
    image: agent
    volumes: [exec-db:/run/cadre-exec/db]
  db:
    image: db
    command: [/run/mesh/exec, --, db]
    volumes: [exec-db:/run/cadre-exec]
    x-cadre:
      exec:
` + commands.String() + `volumes:
  exec-db:
    driver_opts: { type: tmpfs, device: tmpfs }
`
	if err := os.WriteFile(compose, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	passes(t, newToy(t), "-exec", compose, "db")
}

func TestTheExampleInGoPasses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	program := filepath.Join(t.TempDir(), "adapter")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, example(t, "go/main.go")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	workload := newToy(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	ctx, stop := context.WithCancel(t.Context())
	adapter := exec.CommandContext(ctx, program)
	adapter.Env = append(os.Environ(), "LISTEN="+address)
	adapter.Stderr = os.Stderr
	if err := adapter.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = adapter.Wait() // was killed
	}()
	for conn := net.Conn(nil); conn == nil; {
		if conn, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	passes(t, workload, address)
}

// TestTheGuideShowsTheExamples as they are tested.
func TestTheGuideShowsTheExamples(t *testing.T) {
	guide, err := os.ReadFile("../../../../docs/guides/drivers.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"adapter.sh", "go/main.go"} {
		text, err := os.ReadFile(example(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(guide, text) {
			t.Errorf("docs/guides/drivers.md does not show %s as it is", name)
		}
	}
}
