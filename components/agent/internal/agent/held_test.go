package agent

import (
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestTOK15_ABootSaysWhichTokensItUses: those of the last answer that it took, whatever
// was given out since, so that they are not revoked as old.
func TestTOK15_ABootSaysWhichTokensItUses(t *testing.T) {
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Life = 3 * time.Second
	c.Grant = func(r *admissionv1.AdmitResponse) {
		r.Credentials.Consul = &admissionv1.ConsulCredentials{TokensId: "of the admission"}
	}
	said := make(chan string, 100)
	answers := 0
	c.Renewal = func(r *admissionv1.RenewRequest, out *admissionv1.Credentials) error { // one at a time
		said <- r.GetHeld().GetTokensId()
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
	if first, next := c.Admits()[0].GetHeld(), c.Admits()[1].GetHeld(); first != nil || next.GetTokensId() == "" {
		t.Errorf("said at the first admission: %v, at the next: %v", first, next)
	}
}
