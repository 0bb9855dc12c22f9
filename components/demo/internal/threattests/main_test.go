package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const page = `text
P0 rows that no test shows: old.

| ATT-01 | P0 | forged quotes | verified | old |
| ATT-02 | P1 | other | Open: nobody has built it yet |  |
| TOK-16 | P0 | files | mode, ` + "`TestModes`" + `. Open: the test has no id |  |`

// only makes the page above all that there must be.
func only(t *testing.T) {
	t.Helper()
	was := required
	required = rows("P0", "ATT 01\nTOK 16", "P1", "ATT 02")
	t.Cleanup(func() { required = was })
}

func TestFill(t *testing.T) {
	only(t)
	tests := []string{"TestATT01_ATT02_Both", "TestATT01_One", "TestModes"}
	got, err := fill(page, tests)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| ATT-01 | P0 | forged quotes | verified | `TestATT01_ATT02_Both`<br>`TestATT01_One` |",
		"| ATT-02 | P1 | other | Open: nobody has built it yet | `TestATT01_ATT02_Both` |",
		"\nP0 rows that no test shows: TOK-16.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if again, err := fill(got, tests); err != nil || again != got {
		t.Errorf("filling twice changes the page: %v", err)
	}
}

func TestFillRefuses(t *testing.T) {
	only(t)
	good := []string{"TestATT01_A", "TestModes"}
	without := func(line string) string { return strings.Replace(page, line, "", 1) }
	for want, c := range map[string]struct {
		page  string
		tests []string
	}{
		"row ATT-01 has no test":                     {page, []string{"TestModes"}},
		"tests row ATT-99, which the page does":      {page, append(slices.Clone(good), "TestATT99_B")},
		"names the test TestModes, which does not":   {page, []string{"TestATT01_A"}},
		"row ATT-01, of priority P0, is not on the":  {without("| ATT-01 | P0 | forged quotes | verified | old |\n"), []string{"TestModes"}},
		"row TOK-16 has priority P1 on the page":     {strings.Replace(page, "TOK-16 | P0", "TOK-16 | P1", 1), good},
		"row ATT-02 has no test":                     {strings.Replace(page, "nobody has built it yet", "later", 1), good},
		"row TOK-16 has no test that carries its id": {strings.Replace(page, ". Open: the test has no id", "", 1), good},
		"row ATT-01 is there twice":                  {page + "\n| ATT-01 | P0 | a | b |  |", good},
		"no line \"P0 rows that no test shows":       {without("P0 rows that no test shows: old.\n"), good},
	} {
		if _, err := fill(c.page, c.tests); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestRequiredRows: the lists are read as they are meant.
func TestRequiredRows(t *testing.T) {
	counts := map[string]int{}
	for id, priority := range required {
		if !row.MatchString("| " + id + " | " + priority + " | a | b |  |") {
			t.Errorf("row %q of priority %q", id, priority)
		}
		counts[priority]++
	}
	if want := map[string]int{"P0": 140, "P1": 27, "P2": 2}; !maps.Equal(counts, want) {
		t.Errorf("rows by priority: %v, want %v", counts, want)
	}
}
