package control

import (
	"context"
	"testing"

	"cadre.dev/core/policy"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// EndStale ran for the change before the session was open. A Boot with the Slot in the View, or in
// the records, continues.
func TestASessionThatOpensLateIsNotifiedToo(t *testing.T) {
	for name, c := range map[string]struct {
		boot     string
		why      policy.Decision
		notified bool
	}{
		"the holder":          {"boot", policy.Decision{Code: policy.CodePeerRevoked}, false},
		"a later holder":      {"next", policy.Decision{Allowed: true}, false},
		"a replaced boot":     {"earlier", policy.Decision{Code: policy.CodeIncarnationStale}, true},
		"a view that is late": {"next", policy.Decision{}, false},
	} {
		s, _ := service(t)
		s.ended = func(context.Context, string, string, string, bool) (policy.Decision, error) { return c.why, nil }
		agent, ended := &wokenAgent{notified: make(chan *controlv1.WakeRequest, 1)}, false
		one := &session{group: "pg", slot: "pg-0", bootID: c.boot, wake: make(chan struct{}, 1), agent: agent, end: func() { ended = true }}
		s.add(one)
		s.endLate(t.Context(), one)
		if notified := len(agent.notified) == 1; notified != c.notified || ended != c.notified {
			t.Errorf("%s: notified %t, session ended %t", name, notified, ended)
		}
	}
}
