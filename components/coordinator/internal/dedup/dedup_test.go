package dedup

import "testing"

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"704 bytes behind", "12 bytes behind", true},
		{"waits 1.5 s", "waits 12 s", true},
		{"waits for pg-1", "waits for the leader", false},
		{"", "1", false},
		{"", "", true},
	} {
		if got := Same(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}
