package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestTOK15_ABootSaysWhichTokensItUses: the Boot reports the tokens of the last answer that it
// received, even if newer ones were issued, so that its own are not revoked as old.
func TestTOK15_ABootSaysWhichTokensItUses(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Life = life
	c.Grant = func(r *admissionv1.AdmitResponse) {
		r.Credentials.Consul = &admissionv1.ConsulCredentials{TokensId: "of the admission"}
	}
	said := make(chan string, 100)
	answers := 0
	c.Renewal = func(r *admissionv1.RenewRequest, out *admissionv1.Credentials) error { // one at a time
		said <- r.GetInUse().GetTokensId()
		answers++
		out.Consul.TokensId = "answer " + strconv.Itoa(answers)
		if answers%2 == 1 {
			return status.Error(codes.Unavailable, "the answer is lost")
		}
		return nil
	}
	c.Start(t)
	a := newTestAgent(t, w)
	a.start()
	for _, want := range []string{"of the admission", "of the admission", "answer 2", "answer 2", "answer 4"} {
		select {
		case got := <-said:
			if got != want {
				t.Errorf("the boot says it uses %q, want %q", got, want)
			}
		case <-time.After(2 * soon):
			t.Fatal("no renewal")
		}
	}
	c.Order(&controlv1.Desired{Version: 10, Term: 3, PolicyEpoch: 2, ConfigJson: config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})})
	agenttest.Eventually(t, soon, "another admission", func() bool { return len(c.Admits()) >= 2 })
	if first, next := c.Admits()[0].GetInUse(), c.Admits()[1].GetInUse(); first != nil || next.GetTokensId() == "" {
		t.Errorf("said at the first admission: %v, at the next: %v", first, next)
	}
	if first, next := c.Admits()[0].GetSeenTerm(), c.Admits()[1].GetSeenTerm(); first != 0 || next != 3 {
		t.Errorf("terms seen at the first admission: %d, at the next: %d; want 0 and 3", first, next)
	}
}

// TestTOK15_SecretsThatAreLeftOutAreKept: an answer without them ends no file, and news of
// them is asked for at once.
func TestTOK15_SecretsThatAreLeftOutAreKept(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Life = life
	plain := config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})
	c.Order(&controlv1.Desired{Version: 10, Term: 3, ConfigJson: plain, SecretEpochs: map[string]uint32{"password": 1}})
	var repaired atomic.Bool
	c.Renewal = func(r *admissionv1.RenewRequest, out *admissionv1.Credentials) error {
		if r.GetInUse() == nil {
			t.Error("the boot does not say that it holds anything")
		}
		if !repaired.Load() {
			out.Secrets, out.KeptSecrets = nil, []string{"password", "new"}
		} else {
			out.Secrets[0].Epoch, out.Secrets[0].Value = 2, []byte("n3w")
		}
		return nil
	}
	c.Start(t)
	a := newTestAgent(t, w)
	a.start()
	file := filepath.Join(a.cfg.MeshDir, "secrets/password")
	has := func(want string) func() bool {
		return func() bool { text, err := os.ReadFile(file); return err == nil && string(text) == want }
	}
	agenttest.Eventually(t, soon, "the secret", has("s3cret"))
	agenttest.Eventually(t, soon, "two renewals", func() bool { return c.Renewals() >= 2 })
	if !has("s3cret")() {
		t.Error("a renewal without the secret removed it")
	}
	repaired.Store(true)
	c.Order(&controlv1.Desired{Version: 11, Term: 3, ConfigJson: plain, SecretEpochs: map[string]uint32{"password": 2}})
	agenttest.Eventually(t, soon, "the new value", has("n3w"))
}

func TestBehindRequestsAnUnreadableValueOnce(t *testing.T) {
	grant := &admissionv1.Credentials{
		Secrets:     []*admissionv1.Secret{{Name: "kept", Epoch: 1}, {Name: "given", Epoch: 1}},
		KeptSecrets: []string{"kept", "never had"},
	}
	wanted := func(change func(map[string]uint32)) *controlv1.Desired {
		d := &controlv1.Desired{Version: 5, SecretEpochs: map[string]uint32{"kept": 2, "never had": 1, "given": 1}}
		change(d.GetSecretEpochs())
		return d
	}
	nothing := func(map[string]uint32) {}
	for name, tc := range map[string]struct {
		desired *controlv1.Desired
		asked   uint64
		want    bool
	}{
		"answered":                   {wanted(nothing), 5, false},
		"news since":                 {wanted(nothing), 4, true},
		"answered, not declared":     {wanted(func(e map[string]uint32) { delete(e, "kept") }), 5, false},
		"another one was rotated":    {wanted(func(e map[string]uint32) { e["given"] = 2 }), 5, true},
		"another one is declared":    {wanted(func(e map[string]uint32) { e["fresh"] = 1 }), 5, true},
		"a coordinator without news": {&controlv1.Desired{}, 0, false},
	} {
		if got := behind(tc.desired, grant, tc.asked); (got != "") != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestATokenThatConsulDoesNotKnowIsReplaced: the records keep the token. The agent accepts the
// certificate all the same, and the next renewal requests another token.
func TestATokenThatConsulDoesNotKnowIsReplaced(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	plain := config(t, group.AgentConfig{Workload: group.Workload{Kind: "none"}})
	order := func(epoch uint32) {
		c.Order(&controlv1.Desired{Version: uint64(10 + epoch), Term: 3, ConfigJson: plain, SecretEpochs: map[string]uint32{"password": epoch}})
	}
	order(1)
	c.Grant = func(r *admissionv1.AdmitResponse) {
		r.Credentials.Consul = &admissionv1.ConsulCredentials{TokensId: "one", WorkloadToken: "gone"}
	}
	keeps, epoch := make(chan bool, 100), uint32(1)
	c.Renewal = func(r *admissionv1.RenewRequest, out *admissionv1.Credentials) error { // one at a time
		keeps <- r.GetInUse().GetKeepsToken()
		epoch++
		out.Secrets[0].Epoch = epoch
		out.Consul = &admissionv1.ConsulCredentials{TokensId: "one", TokenKept: r.GetInUse().GetKeepsToken()}
		return nil
	}
	c.Start(t)
	a := newTestAgent(t, w)
	a.cfg.Consul = "127.0.0.1:0" // a Consul proxy whose Consul knows no token
	a.start()
	for n, want := range []bool{true, false} {
		order(uint32(n) + 2) // of which each has the agent renew
		select {
		case got := <-keeps:
			if got != want {
				t.Errorf("the boot says that it keeps its token: %v, want %v", got, want)
			}
		case <-time.After(3 * soon):
			t.Fatal("no renewal")
		}
	}
}
