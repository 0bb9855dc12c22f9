package composetest

import "testing"

// TestPlainHasNoOption: of nested and alternative parts, the part without an option stays.
func TestPlainHasNoOption(t *testing.T) {
	template := "a\n%{ if b == null ~}\nplain\n%{ else ~}\noption\n%{ if b.c == null ~}\ninner\n%{ endif ~}\n%{ endif ~}\n" +
		"%{ if b != null ? b.d != null : false ~}\nno\n%{ endif ~}\n%{ if b != null ? b.d == null : true ~}\nyes\n%{ endif ~}\nz\n"
	if got, want := Plain(template), "a\nplain\nyes\nz\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
