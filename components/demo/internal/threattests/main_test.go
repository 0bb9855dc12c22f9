package main

import (
	"strings"
	"testing"
)

const page = `text
| ATT-01 | P0 | forged quotes | verified | old |
| ATT-02 | P1 | other | Open: not built |  |
| TOK-16 | P0 | files | mode, ` + "`TestModes`" + ` |  |`

func TestFill(t *testing.T) {
	got, err := fill(page, []string{"TestATT01_ATT02_Both", "TestATT01_One", "TestModes"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| ATT-01 | P0 | forged quotes | verified | `TestATT01_ATT02_Both`<br>`TestATT01_One` |",
		"| ATT-02 | P1 | other | Open: not built | `TestATT01_ATT02_Both` |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if again, err := fill(got, []string{"TestATT01_ATT02_Both", "TestATT01_One", "TestModes"}); err != nil || again != got {
		t.Errorf("filling twice changes the page: %v", err)
	}
}

func TestFillRefuses(t *testing.T) {
	for name, tests := range map[string][]string{
		"row ATT-01 has no test":                   {"TestModes"},
		"tests row ATT-99, which the page does":    {"TestATT01_A", "TestModes", "TestATT99_B"},
		"names the test TestModes, which does not": {"TestATT01_A"},
	} {
		if _, err := fill(page, tests); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}
