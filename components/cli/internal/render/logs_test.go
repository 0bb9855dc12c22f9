package render

import (
	"strings"
	"testing"
)

func TestALogCannotSteerTheTerminal(t *testing.T) {
	for _, size := range []int{1, 2, 1000} {
		var out strings.Builder
		l := NewLog(&out)
		text := "plain äöü £ 日本\ttab\r\n\x1b[2J\x07\x7f \u009b31m\nrest \xc2"
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			if err := l.Piece(0, rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := l.Piece(42, []byte("after\n")); err != nil {
			t.Fatal(err)
		}
		want := "plain äöü £ 日本\ttab\\x0d\n\\x1b[2J\\x07\\x7f \\x9b31m\nrest \xc2\n... 42 bytes dropped\nafter\n"
		if err := l.Close(); err != nil || out.String() != want {
			t.Errorf("pieces of %d: %q, want %q", size, out.String(), want)
		}
	}
}
