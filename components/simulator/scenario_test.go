package simulator_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cadre.dev/raced"
	"cadre.dev/simulator"
)

// TestScenarios runs plans that seeds found once. A line "# ends:" in each gives the groups'
// reasons at the end for not being settled, or nothing. Some plans must show more: see shows. Under
// the race detector every tenth runs.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.plan")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for n, file := range files {
		if raced.Enabled && n%10 != 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".plan"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := read(t, file)
			_, ends, said := strings.Cut(string(text), "# ends:")
			ends, _, _ = strings.Cut(ends, "\n")
			out, broken := simulator.Judge(t, p)
			if len(broken) > 0 {
				t.Errorf("%s", simulator.Explain(p, out, broken))
			}
			if is := shows[strings.TrimSuffix(filepath.Base(file), ".plan")]; is != nil && !is(out) {
				t.Errorf("what it is there to show does not happen:\n%s", out)
			}
			got := strings.Join(slices.Sorted(maps.Values(out[len(out)-1].Resting)), "")
			if want := strings.TrimSpace(ends); !said || (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("it ends with %q, want %q", got, want)
			}
		})
	}
}
