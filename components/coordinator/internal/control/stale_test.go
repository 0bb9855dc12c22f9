package control

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// wokenAgent keeps what it was told.
type wokenAgent struct {
	controlv1.AgentServiceClient
	told chan *controlv1.WakeRequest
}

func (w *wokenAgent) Wake(_ context.Context, r *controlv1.WakeRequest, _ ...grpc.CallOption) (*controlv1.WakeResponse, error) {
	w.told <- r
	return &controlv1.WakeResponse{}, nil
}

// TestOnlyRecordsThatCanBeReadEndABoot: a view without its admission comes from a
// record that cannot be read as well, or Consul has no leader. Neither is a reason for
// a workload to stop.
func TestOnlyRecordsThatCanBeReadEndABoot(t *testing.T) {
	for name, c := range map[string]struct {
		why  policy.Decision
		err  error
		want string
	}{
		"not readable":   {policy.Decision{}, errors.New("no cluster leader"), ""},
		"view is behind": {policy.Decision{Allowed: true}, nil, ""},
		"evicted":        {policy.Decision{Code: policy.CodePeerRevoked}, nil, string(policy.CodePeerRevoked)},
	} {
		s, _ := service(t)
		s.ended = func(context.Context, string, string, string) (policy.Decision, error) { return c.why, c.err }
		agent, ended := &wokenAgent{told: make(chan *controlv1.WakeRequest, 1)}, false
		s.add(&session{slot: "pg-0", bootID: "boot", wake: make(chan struct{}, 1), agent: agent, end: func() { ended = true }})
		s.EndStale(t.Context(), &view.View{})
		got := ""
		select {
		case r := <-agent.told:
			got = r.GetEndedCode()
		default:
		}
		if got != c.want || ended != (c.want != "") {
			t.Errorf("%s: told %q, session ended %t", name, got, ended)
		}
	}
}
