package parent

import "testing"

func TestWhenAWorkerHangs(t *testing.T) {
	for name, c := range map[string]struct {
		beats []uint64 // the number of beats at each look
		want  bool
	}{
		"it never spoke":              {make([]uint64, 100), false},
		"it speaks":                   {[]uint64{2, 4, 6, 8, 10, 12, 14, 16}, false},
		"once in five looks":          {[]uint64{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3}, false},
		"one look too few":            {[]uint64{3, 3, 3, 3, 3, 3}, false},
		"six looks after its last":    {[]uint64{3, 3, 3, 3, 3, 3, 3}, true},
		"a machine that stood still":  {[]uint64{8, 8, 9, 11}, false},
		"silent after years of words": {[]uint64{1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 40}, true},
	} {
		var (
			p    pulse
			hung bool
		)
		for _, beats := range c.beats {
			p, hung = p.look(beats)
		}
		if hung != c.want {
			t.Errorf("%s: hung %v, want %v", name, hung, c.want)
		}
	}
}
