package group_test

import (
	"testing"

	"cadre.dev/core/group"
)

func TestSameOSImage(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"dstack-0.5.7", "dstack-0.5.7", true},
		{"dstack-0.5.7", "dstack-0.5.7-0a1b2c3d", true},
		{"dstack-0.5.7-0a1b2c3d", "dstack-0.5.7-0a1b2c", false},
		{"dstack-0.5.7", "dstack-0.5.71", false},
		{"dstack-0.5.7", "dstack-0.5.7-dev", false},
		{"dstack-0.5.7", "dstack-0.5.7-1", false},
		{"dstack-0.5.7", "dstack-dev-0.5.7", false},
		{"dstack-0.5.7", "", false},
		{"", "-0a1b2c3d", false},
		{"", "", true},
	} {
		if group.SameOSImage(c.a, c.b) != c.want || group.SameOSImage(c.b, c.a) != c.want {
			t.Errorf("SameOSImage(%q, %q), either way round: want %v", c.a, c.b, c.want)
		}
	}
}
