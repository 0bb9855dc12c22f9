package view_test

import (
	"errors"
	"strings"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// A spec from a plain KV edit has one problem for each wrong field, in the words of `cadre group
// validate`.
func TestAStoredSpecHasAllItsProblemsAtOnce(t *testing.T) {
	text := strings.Replace(specText(t), `"name":"pg"`,
		`"name":"pg","lifecycle_hook":[{"transition":"PRE_TERMINATE","heartbeat_timeout":300,"http":{"port":80,"path":"leave"},"name":"leave"}]`, 1)
	got := map[string]string{}
	var wrong *group.ValidationError
	if !errors.As(read(t, map[string]string{store.GroupSpecKey("pg"): text}).Specs["pg"].Err, &wrong) {
		t.Fatal("the spec is in force")
	}
	for _, p := range wrong.Problems {
		got[p.Path] = p.Message
	}
	if len(wrong.Problems) != 2 || got[`lifecycle_hook["leave"].heartbeat_timeout`] != `is 300 without a unit: write "300s", or another text such as "5m"` ||
		got[`lifecycle_hook["leave"].http.path`] == "" {
		t.Errorf("problems %v", wrong)
	}
	if _, err := view.DecodeSpec([]byte(text), "other"); err == nil || !strings.Contains(err.Error(), "is stored under") || !strings.Contains(err.Error(), "heartbeat_timeout") {
		t.Errorf("under another name: %v", err)
	}
}
