package rules

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// table is relative to this folder.
const table = "../../../../docs/evidence/rollout-rules.md"

var (
	ruleTest  = regexp.MustCompile(`(?m)^func (Test(?:R\d+_)+\w*)\(`)
	ruleID    = regexp.MustCompile(`R\d+_`)
	tableRow  = regexp.MustCompile(`(?m)^\| (R\d+) \| ([^|]+) \| ([^|]+) \|$`)
	tableTest = regexp.MustCompile("`(\\w+)\\.(\\w+)`")
	proseID   = regexp.MustCompile(`\bR\d+\b`)
)

// required are the rules that core answers for.
const required = `R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R12 R13 R14 R15 R17 R18 R19 R20 R21 R22 R23 R24 R25 R26 R27 R28 R31
R32 R33 R34 R36 R37 R38 R39 R40 R41 R43 R44 R45 R46 R47 R48 R49 R50 R52 R53 R54 R55 R60 R61 R62 R63 R64 R65 R66 R67
R68 R69 R70 R74 R78 R79 R80 R81 R82 R86 R87 R88 R89 R90 R92 R94 R96 R99 R100 R103 R104 R105 R107 R108 R109 R110 R112 R113 R115
R116 R117 R118 R119 R120 R122 R125 R127 R128 R129 R131 R132 R134 R135 R136 R138 R139 R140 R143 R145 R146`

// stories of the planner name their rules in their first lines.
const stories = "../../rollout/testdata/*.txt"

var update = flag.Bool("update", false, "write the tests that exist into the table")

// written maps each rule to the tests that carry its id, as package.Test, and to the
// stories, as story.name.
func written(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../../*/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d test files: %v", len(files), err)
	}
	out := make(map[string][]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ruleTest.FindAllStringSubmatch(string(text), -1) {
			for _, id := range ruleID.FindAllString(m[1], -1) {
				id = strings.TrimSuffix(id, "_")
				out[id] = append(out[id], filepath.Base(filepath.Dir(file))+"."+m[1])
			}
		}
	}
	told, err := filepath.Glob(stories)
	if err != nil || len(told) == 0 {
		t.Fatalf("%d stories: %v", len(told), err)
	}
	for _, file := range told {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		prose, _, _ := strings.Cut(string(text), "\n\n")
		for _, id := range slices.Compact(slices.Sorted(slices.Values(proseID.FindAllString(prose, -1)))) {
			out[id] = append(out[id], "story."+strings.TrimSuffix(filepath.Base(file), ".txt"))
		}
	}
	return out
}

// page is the text of one of the repository's pages.
func page(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("docs/%s is not here: core was taken out of its repository", filepath.Base(file))
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documented is the same, as the table says it.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	out := make(map[string][]string)
	for _, row := range tableRow.FindAllStringSubmatch(page(t, table), -1) {
		for _, m := range tableTest.FindAllStringSubmatch(row[3], -1) {
			out[row[1]] = append(out[row[1]], m[1]+"."+m[2])
		}
	}
	return out
}

// rewrite puts the tests that exist into the table's rows; promises are written by hand.
func rewrite(t *testing.T, want map[string][]string) {
	t.Helper()
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	changed := tableRow.ReplaceAllStringFunc(string(text), func(row string) string {
		m := tableRow.FindStringSubmatch(row)
		slices.Sort(want[m[1]])
		return fmt.Sprintf("| %s | %s | `%s` |", m[1], m[2], strings.Join(want[m[1]], "`<br>`"))
	})
	if err := os.WriteFile(table, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// `go test ./internal/rules -update` writes the tests of the rows that are there.
func TestTheTableNamesTheTestsThatExist(t *testing.T) {
	want := written(t)
	if *update {
		rewrite(t, want)
	}
	got := documented(t)
	for rule, tests := range want {
		slices.Sort(tests)
		slices.Sort(got[rule])
		if !slices.Equal(tests, got[rule]) {
			t.Errorf("%s: the table has %v, the code has %v", rule, got[rule], tests)
		}
	}
	for rule := range got {
		if len(want[rule]) == 0 {
			t.Errorf("%s stands in the table and no test carries its id", rule)
		}
	}
}

func TestEveryRequiredRuleHasATest(t *testing.T) {
	have := written(t)
	for _, rule := range strings.Fields(required) {
		if len(have[rule]) == 0 {
			t.Errorf("no test carries %s", rule)
		}
	}
}
