package driver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestASlowConsulLeaderIsNotTakenForABrokenFollower: a leader answers all requests itself, so a
// late answer does not prove a role. A follower forwards to the leader, and is alive without a
// leader.
func TestASlowConsulLeaderIsNotTakenForABrokenFollower(t *testing.T) {
	for state, want := range map[string]Liveness{"Leader": LivenessUnknown, "Follower": LivenessAlive} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/agent/self":
				_ = json.NewEncoder(w).Encode(map[string]any{
					"Config": map[string]any{"NodeName": "c-0", "Server": true}, "Stats": map[string]any{"raft": map[string]string{"state": state}},
				})
			case "/v1/status/leader":
			default:
				<-r.Context().Done()
			}
		}))
		t.Cleanup(server.Close)
		d, err := New(Config{Kind: "consul", Self: "c-0", Settings: map[string]string{"http_addr": strings.TrimPrefix(server.URL, "http://")}})
		if err != nil {
			t.Fatal(err)
		}
		sees(t, d, state, func(v View) bool {
			return v.Liveness == want && !v.Ready && !v.MayDisrupt && (state != "Leader" || strings.Contains(v.Message, "no answer within 900ms"))
		})
	}
}
