package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/attest/attestsim"
	"cadre.dev/core/group"
	"cadre.dev/core/secret/secrettest"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// soon is long: tests run at once, and a machine may be busy with others.
const soon = 30 * time.Second

// life of a certificate whose renewal a test sees: a third of it passes before each renewal, and
// the rest is time for a busy machine.
const life = 6 * time.Second

// hosts counts the addresses that ownAddress has given.
var hosts atomic.Uint32

// ownAddress is a free one. It stays free for each Boot of the test's agent, since no other
// test listens on its host.
func ownAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", fmt.Sprintf("127.10.250.%d:0", 1+hosts.Add(1)%250))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // test
	return ln.Addr().String()
}

// testAgent is a running agent in a folder that outlives it, as a CVM's disk does.
type testAgent struct {
	t    *testing.T
	cfg  Config
	api  string
	log  *slog.Logger // nil: none, or stderr with AGENT_TEST_LOG
	stop func()
}

func newTestAgent(t *testing.T, w *agenttest.World) *testAgent {
	t.Helper()
	socket, _ := w.Guest(t, agenttest.WorkerAppID, 1, attestsim.Faults{})
	api, dir := ownAddress(t), t.TempDir()
	return &testAgent{t: t, api: "http://" + api, cfg: Config{
		TrustFile: agenttest.TrustFile(t, w.Trust()), Gateway: w.Gateway.Config(),
		StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(secrettest.MemoryDir(t), "run"), MeshDir: filepath.Join(secrettest.MemoryDir(t), "mesh"),
		ExecDir:      filepath.Join(dir, "exec"),
		DstackSocket: socket, API: api, Listen: "127.0.0.1:0", Version: "test",
	}}
}

// start runs a new Boot.
func (a *testAgent) start() {
	a.t.Helper()
	log := io.Discard
	if os.Getenv("AGENT_TEST_LOG") != "" {
		log = os.Stderr
	}
	if a.cfg.Log = a.log; a.log == nil {
		a.cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	}
	agent, err := New(a.cfg)
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx) }()
	stopped := false
	a.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			a.t.Errorf("agent ended: %v", err)
		}
	}
	a.t.Cleanup(a.stop)
}

func (a *testAgent) call(method, path, body string) (int, string) {
	a.t.Helper()
	req, err := http.NewRequest(method, a.api+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close() //nolint:errcheck // test
	data, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

func config(t *testing.T, c group.AgentConfig) []byte {
	t.Helper()
	c.Group, c.Slot, c.Members, c.Revision = "web", "web-0", []string{"web-0", "web-1"}, "r1"
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func step(r *controlv1.Report, operation string) *controlv1.StepResult {
	for _, s := range r.GetSteps() {
		if s.GetOperationId() == operation {
			return s
		}
	}
	return nil
}

func TestAgentFromBootToDrain(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	hooked := group.AgentConfig{
		Workload: group.Workload{Kind: "none"}, Meta: map[string]string{"color": "it's blue"},
		LifecycleHooks: []group.LifecycleHook{{Name: "flush", Transition: group.PreTerminate, Wait: &group.WaitAction{}}},
	}
	c.Order(&controlv1.Desired{Version: 10, Term: 3, ConfigJson: config(t, hooked)})
	a := newTestAgent(t, w)
	a.start()

	agenttest.Eventually(t, soon, "a report with a healthy member", func() bool {
		r := c.Last()
		return r.GetMemberKnown() && r.GetMember().GetRole() == controlv1.Role_ROLE_NONE && r.GetDesiredVersion() == 10 && r.GetTerm() == 3
	})
	agenttest.Eventually(t, soon, "workloads may start", func() bool {
		_, err := os.Stat(filepath.Join(a.cfg.MeshDir, "ready"))
		return err == nil
	})
	if code, body := a.call("GET", "/readyz", ""); code != http.StatusOK {
		t.Errorf("readyz = %d %s, want 200", code, body)
	}
	if code, body := a.call("GET", "/v1/instance", ""); code != http.StatusOK || !strings.Contains(body, `"slot":"web-0"`) {
		t.Errorf("instance = %d %s", code, body)
	}
	if code, body := a.call("GET", "/metrics", ""); code != http.StatusOK || !strings.Contains(body, "cadre_agent_admitted 1") {
		t.Errorf("metrics = %d %.200s", code, body)
	}
	checkMesh(t, a.cfg.MeshDir)

	order := &controlv1.OperationOrder{OperationId: "op-1", Verb: controlv1.Verb_VERB_DRAIN, Attempt: 1}
	c.Order(&controlv1.Desired{Version: 11, Term: 3, ConfigJson: config(t, hooked), Operation: order})
	agenttest.Eventually(t, soon, "the drain runs", func() bool {
		return step(c.Last(), "op-1").GetState() == controlv1.StepState_STEP_STATE_RUNNING
	})
	completeHook(t, a, "flush", "CONTINUE")
	agenttest.Eventually(t, soon, "the drain is done", func() bool {
		return step(c.Last(), "op-1").GetState() == controlv1.StepState_STEP_STATE_DONE
	})

	t.Run("an older term is not obeyed", func(t *testing.T) {
		c.Order(&controlv1.Desired{Version: 99, Term: 2, ConfigJson: config(t, hooked),
			Operation: &controlv1.OperationOrder{OperationId: "op-old", Verb: controlv1.Verb_VERB_DRAIN, Attempt: 1}})
		before := c.Last().GetSequence()
		agenttest.Eventually(t, soon, "two more reports", func() bool { return c.Last().GetSequence() > before+1 })
		if s := step(c.Last(), "op-old"); s != nil {
			t.Errorf("order of an older term was carried out: %v", s)
		}
	})
	t.Run("a cut session comes back", func(t *testing.T) {
		sessions, sequence := c.Sessions(), c.Last().GetSequence()
		w.Gateway.Cut()
		agenttest.Eventually(t, soon, "a new session and a new report", func() bool {
			return c.Sessions() > sessions && c.Last().GetSequence() > sequence
		})
	})
	t.Run("a finished order is answered after a reboot", func(t *testing.T) {
		c.Order(&controlv1.Desired{Version: 12, Term: 4, ConfigJson: config(t, hooked), Operation: order})
		a.stop()
		boots := len(c.Boots())
		a.start()
		agenttest.Eventually(t, soon, "another boot reports the result", func() bool {
			r := c.Last()
			return len(c.Boots()) > boots && r.GetDesiredVersion() == 12 && r.GetSequence() < 30 &&
				step(r, "op-1").GetState() == controlv1.StepState_STEP_STATE_DONE
		})
		if got := c.Boots(); got[len(got)-1] == got[0] {
			t.Errorf("boot id %s was used twice", got[0])
		}
	})
}

func checkMesh(t *testing.T, dir string) {
	t.Helper()
	for name, want := range map[string]string{
		"env":              `CADRE_META_COLOR='it'\''s blue'`,
		"hosts":            "coordinator-0",
		"secrets/password": "s3cret",
	} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s = %q, %v; want %q in it", name, data, err, want)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "secrets/password"))
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("mode of a secret = %v, %v; want 0400", info.Mode(), err)
	}
}

func completeHook(t *testing.T, a *testAgent, hook, result string) {
	t.Helper()
	token := ""
	agenttest.Eventually(t, soon, "the hook is open", func() bool {
		_, body := a.call("GET", "/v1/lifecycle", "")
		var status lifecycle.Status
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			t.Fatal(err)
		}
		for _, h := range status.Hooks {
			if h.Name == hook {
				token = h.Token
			}
		}
		return token != ""
	})
	code, body := a.call("POST", "/v1/lifecycle/"+hook+"/complete", fmt.Sprintf(`{"result":%q,"token":%q}`, result, token))
	if code != http.StatusOK || !strings.Contains(body, `"applied":true`) {
		t.Fatalf("complete %s = %d %s, want applied", hook, code, body)
	}
}

func TestAdmissionWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	refusals := make(chan struct{}, 100)
	var tries int
	c.Refuse = func() error { // called by one connection at a time: the agent makes one attempt at a time
		if tries++; tries < 4 {
			refusals <- struct{}{}
			return status.Error(codes.FailedPrecondition, "REVISION_NOT_ALLOWED: not now")
		}
		return nil
	}
	c.Start(t)
	a := newTestAgent(t, w)
	a.start()
	agenttest.Eventually(t, soon, "first refusal", func() bool { return len(refusals) > 0 })
	if code, _ := a.call("GET", "/readyz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("readyz before admission = %d, want 503", code)
	}
	agenttest.Eventually(t, soon, "admission", func() bool { return len(c.Boots()) == 1 })
}

// TestTOK15_CredentialsAreRenewedOverTheControlSession: again and again, without new
// evidence, and the session lives on past the ends of its certificates. A newer policy
// asks for evidence, of the same Boot.
func TestTOK15_CredentialsAreRenewedOverTheControlSession(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Life = life
	c.Start(t)
	a := newTestAgent(t, w)
	a.cfg.MeshSVID = true
	a.start()
	agenttest.Eventually(t, 2*soon, "renewals for more than a life", func() bool { return c.Renewals() >= 5 })
	if len(c.Boots()) != 1 || c.Sessions() != 1 {
		t.Errorf("%d admissions and %d sessions, want one of each", len(c.Boots()), c.Sessions())
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(a.cfg.MeshDir, "tls/tls.crt"), filepath.Join(a.cfg.MeshDir, "tls/tls.key"))
	if err != nil || time.Until(pair.Leaf.NotAfter) <= 0 {
		t.Errorf("certificate files: %v", err)
	}
	c.Order(&controlv1.Desired{Version: 10, Term: 3, PolicyEpoch: 2, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})})
	agenttest.Eventually(t, soon, "another admission", func() bool { return len(c.Boots()) >= 2 })
	if got := c.Boots(); got[0] != got[1] {
		t.Errorf("attested by boot %s, want %s", got[1], got[0])
	}
}
