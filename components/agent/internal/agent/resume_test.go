package agent

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// outliving is a Parent whose Boot has any number of processes.
type outliving struct {
	alone

	key *ecdsa.PrivateKey
	run uint32
}

func newOutliving(t *testing.T) *outliving {
	t.Helper()
	p := &outliving{}
	if _, err := p.NewKey(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *outliving) Key() (*ecdsa.PrivateKey, error) { return p.key, nil }

func (p *outliving) NewKey() (key *ecdsa.PrivateKey, err error) {
	p.key, err = p.alone.Key()
	return p.key, err
}

func (p *outliving) Run() (uint32, error) { return p.run, nil }

// resumeWorld has one agent whose workloads may start.
func resumeWorld(t *testing.T) (*agenttest.Coordinator, *testAgent, *outliving) {
	t.Helper()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Grant = func(r *admissionv1.AdmitResponse) {
		r.Credentials.Secrets = []*admissionv1.Secret{{Name: "password", Value: []byte("of the admission"), Epoch: 1}}
	}
	c.Start(t)
	c.Order(&controlv1.Desired{Version: 10, Term: 3, SecretEpochs: map[string]uint32{"password": 1}, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})})
	a, parent := newTestAgent(t, w), newOutliving(t)
	a.cfg.Parent = parent
	a.start()
	agenttest.Eventually(t, soon, "workloads may start", func() bool { return a.exists("ready") && c.Last().GetMemberKnown() })
	return c, a, parent
}

// A later process of a Boot continues the Boot: it requests no admission, and its workloads do not
// notice the change.
func TestALaterProcessOfABootGoesOn(t *testing.T) {
	t.Parallel()
	c, a, parent := resumeWorld(t)
	names := []string{"ready", "hosts", "env", "secrets/password", "secret-epochs.json"}
	before := map[string]os.FileInfo{}
	for _, name := range names {
		before[name] = a.stat(name)
	}
	seen, bootAt := c.Last().GetSequence(), c.Last().GetBootAt().AsTime()
	a.stop()
	parent.run++
	a.start()
	agenttest.Eventually(t, soon, "reports go on", func() bool { return c.Last().GetSequence() > seen && c.Last().GetMemberKnown() })
	if got := c.Boots(); len(got) != 1 {
		t.Errorf("admitted %d times", len(got))
	}
	if got := c.Last().GetBootAt().AsTime(); !got.Equal(bootAt) {
		t.Errorf("the boot began at %v, and now at %v", bootAt, got)
	}
	for _, name := range names {
		now, was := a.stat(name), before[name]
		if !os.SameFile(now, was) || !now.ModTime().Equal(was.ModTime()) {
			t.Errorf("%s was written again", name)
		}
	}
}

// A workload's report about its backend stays valid in the next process.
func TestAReportOfTheWorkloadOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	c, a, parent := resumeWorld(t)
	c.Order(&controlv1.Desired{Version: 11, Term: 3, SecretEpochs: map[string]uint32{"password": 1}, ConfigJson: config(t, group.AgentConfig{
		Workload:    group.Workload{Kind: "none"},
		ServiceMesh: group.ServiceMesh{Proxies: []group.Proxy{{Backend: "queue", Owner: group.OwnerWorkload, TTL: group.Duration(time.Minute)}}},
	})})
	reported := func() bool {
		got := c.Last().GetBackends()
		return len(got) == 1 && got[0].GetHealth() == controlv1.Health_HEALTH_HEALTHY && got[0].GetOutput() == "fine"
	}
	agenttest.Eventually(t, soon, "the backend is known", func() bool { return len(c.Last().GetBackends()) == 1 })
	if code, body := a.call("PUT", "/v1/backends/queue", `{"status":"passing","output":"fine"}`); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	agenttest.Eventually(t, soon, "the report is sent", reported)
	seen := c.Last().GetSequence()
	a.stop()
	parent.run++
	a.start()
	agenttest.Eventually(t, soon, "reports go on", func() bool { return c.Last().GetSequence() > seen && c.Last().GetMemberKnown() })
	if !reported() {
		t.Errorf("after the next process began: %v", c.Last().GetBackends())
	}
}

// A process that ends in order sends a farewell; a process that fails is restarted, and must not.
func TestOnlyAnEndIsAFarewell(t *testing.T) {
	t.Parallel()
	c, a, _ := resumeWorld(t)
	a.stop()
	if got := c.Farewells(); got != 1 {
		t.Errorf("%d farewells of a boot that ended", got)
	}
	failing := errors.New("a part failed")
	agent, err := New(a.cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = runAll(t.Context(),
		func(context.Context) error { return failing },
		func(ctx context.Context) error {
			return agent.untilFarewell(ctx, t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil })
		},
	)
	if !errors.Is(err, failing) || c.Farewells() != 1 {
		t.Errorf("%v, %d farewells", err, c.Farewells())
	}
}

// With the coordinators away it goes on all the same.
func TestALaterProcessNeedsNoCoordinator(t *testing.T) {
	t.Parallel()
	c, a, parent := resumeWorld(t)
	a.stop()
	c.Drop()
	parent.run++
	a.start()
	agenttest.Eventually(t, soon, "the workload's interface shows the identity", func() bool {
		code, body := a.call("GET", "/v1/instance", "")
		return code == 200 && strings.Contains(body, `"known":true`)
	})
	if !a.exists("ready") || len(c.Boots()) != 1 {
		t.Error("the boot gave its slot up")
	}
}

func TestTOK21_AnotherBootIsAdmittedAgain(t *testing.T) {
	t.Parallel()
	c, a, parent := resumeWorld(t)
	a.stop()
	if _, err := parent.NewKey(); err != nil {
		t.Fatal(err)
	}
	a.start()
	agenttest.Eventually(t, soon, "another admission", func() bool { return len(c.Boots()) == 2 && a.exists("ready") })
	if got := c.Boots(); got[0] == got[1] {
		t.Error("it is the same boot")
	}
}

// A truncated file counts as missing.
func TestAHalfWrittenFileIsAnAdmission(t *testing.T) {
	t.Parallel()
	c, a, parent := resumeWorld(t)
	a.stop()
	path := filepath.Join(a.cfg.RunDir, "credentials")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	parent.run++
	a.start()
	agenttest.Eventually(t, soon, "another admission", func() bool { return len(c.Boots()) == 2 && a.exists("ready") })
	if got := c.Boots(); got[0] != got[1] {
		t.Error("it is another boot")
	}
}

func (a *testAgent) stat(name string) os.FileInfo {
	a.t.Helper()
	info, err := os.Stat(filepath.Join(a.cfg.MeshDir, name))
	if err != nil {
		a.t.Fatal(err)
	}
	return info
}
