package main

import (
	"encoding/json"
	"slices"
	"testing"
)

// A cluster's outputs are printed in the order of their names; an empty output has no lines.
func TestOutputsAreLinesToType(t *testing.T) {
	got := commented(json.RawMessage(`{"hello of web-1":"curl b","all of web-0":"curl a"}`))
	if want := []string{"curl a   # all of web-0", "curl b   # hello of web-1"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	for _, other := range []string{"", `"a revision"`, `{}`} {
		if got := commented(json.RawMessage(other)); got != nil {
			t.Errorf("output %s: %q", other, got)
		}
	}
}
