package names_test

import (
	"strings"
	"testing"

	"cadre.dev/core/names"
)

// TestOneRuleForListsOfNames.
func TestOneRuleForListsOfNames(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "a b c d e": "a, b, c, d, e", "a b c d e f": "a, b, c, d, e, and 1 more", "a b c d e f g": "a, b, c, d, e, and 2 more",
	} {
		list := strings.Fields(text)
		if got := names.Few(list, ", "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
