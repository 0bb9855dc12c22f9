package main

import (
	"encoding/json"
	"slices"
	"testing"
)

// What a cluster's outputs name is printed in the order of the names; one that names nothing
// has no lines.
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
