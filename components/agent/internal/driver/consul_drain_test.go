package driver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAnUnhealthyConsulServerIsDrained: the step behind the drain may be the repair. A server that
// is ready is not stopped before autopilot keeps it.
func TestAnUnhealthyConsulServerIsDrained(t *testing.T) {
	type object = map[string]any
	answers := func(t *testing.T, refused string, status int) Driver {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
			switch path := r.URL.Path; {
			case strings.HasPrefix(path, refused):
				http.Error(w, "No cluster leader", status)
			case path == "/v1/agent/self":
				answer(object{"Config": object{"NodeName": "c-0", "Server": true}, "Stats": object{"raft": map[string]string{"state": "Follower"}}})
			case path == "/v1/operator/raft/configuration":
				answer(object{"Servers": []object{{"ID": "id-0", "Node": "c-0", "Voter": true}, {"ID": "id-1", "Node": "c-1", "Voter": true, "Leader": true}}})
			case path == "/v1/operator/autopilot/configuration":
				answer(object{"MinQuorum": 0, "ModifyIndex": 7})
			default:
				answer(object{})
			}
		}))
		t.Cleanup(server.Close)
		d, err := New(Config{Kind: "consul", Self: "c-0", Settings: map[string]string{"http_addr": strings.TrimPrefix(server.URL, "http://")}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, d := range map[string]Driver{
		"no leader":        answers(t, "/v1/operator/", http.StatusInternalServerError),
		"the token is bad": answers(t, "/v1/", http.StatusForbidden),
	} {
		if err := d.Drain(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ready := answers(t, "/v1/operator/autopilot/configuration", http.StatusInternalServerError)
	if err := ready.Drain(t.Context()); err == nil {
		t.Error("a ready server was let go although autopilot may prune it")
	}
}
