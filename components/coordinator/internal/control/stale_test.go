package control

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// wokenAgent records the wake-ups that it receives.
type wokenAgent struct {
	controlv1.AgentServiceClient
	notified chan *controlv1.WakeRequest
}

func (w *wokenAgent) Wake(_ context.Context, r *controlv1.WakeRequest, _ ...grpc.CallOption) (*controlv1.WakeResponse, error) {
	w.notified <- r
	return &controlv1.WakeResponse{}, nil
}

// A View lacks the admission also when its record is unreadable, or when Consul has no leader.
// Neither is a reason to stop a workload.
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
		s.ended = func(_ context.Context, _, _, _ string, spoke bool) (policy.Decision, error) {
			if spoke {
				t.Errorf("%s: an open session is taken for a boot that speaks (IDN-03)", name)
			}
			return c.why, c.err
		}
		agent, ended := &wokenAgent{notified: make(chan *controlv1.WakeRequest, 1)}, false
		s.add(&session{group: "pg", slot: "pg-0", bootID: "boot", wake: make(chan struct{}, 1), agent: agent, end: func() { ended = true }})
		if all := s.EndStale(t.Context(), &view.View{}, Scope{"others": {}}); !all || ended {
			t.Errorf("%s: one of another group: all %t, ended %t", name, all, ended)
		}
		if all := s.EndStale(t.Context(), &view.View{}, Scope{"pg": {}}); all != (c.err == nil) {
			t.Errorf("%s: that is all: %t", name, all)
		}
		got := ""
		select {
		case r := <-agent.notified:
			got = r.GetEndedCode()
		default:
		}
		if got != c.want || ended != (c.want != "") {
			t.Errorf("%s: notified with %q, session ended %t", name, got, ended)
		}
	}
}

// A call that arrives is a sign of life, and is reported as such.
func TestIDN03_ABootThatAsksIsAlive(t *testing.T) {
	s, _ := service(t)
	spoken := false
	s.ended = func(_ context.Context, _, _, _ string, spoke bool) (policy.Decision, error) {
		spoken = spoke
		return policy.Decision{Code: policy.CodePeerRevoked}, nil
	}
	if err := s.notHolder(t.Context(), overlay.ID{Group: "pg", Slot: "pg-0"}, "boot"); status.Code(err) != codes.FailedPrecondition || !spoken {
		t.Errorf("%v, reported as alive: %t", err, spoken)
	}
}
