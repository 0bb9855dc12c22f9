package dashboard

import (
	"net/http"
	"strings"
	"testing"
)

// Each page shows the answers of the API.
func TestPagesShowTheAnswers(t *testing.T) {
	b := entered(t, world(t))
	for path, wants := range map[string][]string{
		"":                               {"coordinator-1", "demo-coordinator-2", "the rollout failed, and waits for an operator", "act/retry?on=kafka", "Failed: healthy_deadline", "kafka-4 was not available", "groups/postgres", "2 / 3", "SIMULATED"},
		"?q=kaf":                         {"groups/kafka"},
		"groups/postgres":                {"max_unavailable", "1 of 1 in use by postgres-1", "Cleared by", "3 voters, quorum 2", "prod7", "postgres-0", "leader", "act/pause?on=postgres", "Booting", "38s", "bob", `href="audit?q=postgres"`},
		"groups/kafka":                   {"Failed", "act/retry?on=kafka", "Write a corrected spec", "cadre rollout undo kafka"},
		"instances/postgres-1":           {"REVISION_NOT_ALLOWED", "approve the revision", "127.32.0.11", "prod7", "act/drain?on=postgres-1", "BOOTING"},
		"operations":                     {"postgres-4-1a2b3c4d.2.postgres-1", "restart-0f3a5c1b", "it leaks", "act/cancel?on=restart-0f3a"},
		"overlay":                        {"seen from coordinator-0", "4.20 ms", "direct-udp", "connection refused", "0.2%"},
		"admissions":                     {"postgres-1", "denied", "OutOfDate, ends in 10 days", "#7"},
		"audit":                          {"entries 1 to 3", "2026-05-04 11:57:00", "operator", "ann (0a1b2c3d)", "start-rollout", "rollouts/postgres-4", "ticket-7", "unknown (written to Consul KV)", `accesskey="5" aria-current="page"`},
		"admissions?state=denied&q=beef": nil,
	} {
		code, body := b.get(path)
		if path == "admissions?state=denied&q=beef" {
			if strings.Contains(body, "instances/postgres-0") {
				t.Errorf("%s shows a slot that the filter excludes", path)
			}
			wants = []string{"instances/postgres-1"}
		}
		if code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, body)
			}
		}
	}
}
