package group

import (
	"os"
	"strings"
	"testing"

	"cadre.dev/core/composetest"
)

// TestAnEditOfBootstrapDCSGetsAWarning: Patroni 4.1.5 reads bootstrap.dcs when it founds the cluster, and says nothing
// about a later edit.
func TestAnEditOfBootstrapDCSGetsAWarning(t *testing.T) {
	text, err := os.ReadFile("../../../clusters/postgres/compose/postgres.yaml")
	if err != nil {
		t.Fatal(err)
	}
	spec := func(kind, compose string) Spec {
		return Spec{Workload: Workload{Kind: kind}, Template: Template{Compose: compose}}
	}
	shipped := composetest.Plain(string(text))
	for name, tc := range map[string]struct {
		kind, from, to string
		warned         bool
	}{
		"max_connections of bootstrap.dcs": {WorkloadPatroni, "max_connections: 50", "max_connections: 100", true},
		"initdb":                           {WorkloadPatroni, "encoding: UTF8", "encoding: LATIN1", true},
		"a comment":                        {WorkloadPatroni, "# An acknowledged write survives", "# Each acknowledged write survives", false},
		"postgresql.parameters":            {WorkloadPatroni, "unix_socket_directories: /tmp", "unix_socket_directories: /run", false},
		"the image":                        {WorkloadPatroni, "RELEASE:", "RELEASE_OF:", false},
		"another workload":                 {WorkloadNone, "max_connections: 50", "max_connections: 100", false},
	} {
		next := strings.Replace(shipped, tc.from, tc.to, 1)
		if next == shipped {
			t.Fatalf("%s: %q is not in the shipped file", name, tc.from)
		}
		got := EditWarnings(spec(tc.kind, shipped), spec(tc.kind, next))
		if warned := len(got) == 1 && strings.HasPrefix(got[0], "bootstrap_read_once: "); warned != tc.warned {
			t.Errorf("%s: %q, want a warning %t", name, got, tc.warned)
		}
	}
	if got := EditWarnings(spec(WorkloadPatroni, "services: {}"), spec(WorkloadPatroni, shipped)); len(got) > 0 {
		t.Errorf("where it was not known before: %q", got)
	}
}
