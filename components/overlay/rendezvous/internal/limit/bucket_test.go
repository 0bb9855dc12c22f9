package limit

import (
	"testing"
	"time"
)

func TestKeyed(t *testing.T) {
	k := NewKeyed[string](Rate{PerSecond: 2, Burst: 3}, 2)
	now := time.Unix(1_700_000_000, 0)
	take := func(key string, n float64, want bool) {
		t.Helper()
		if got := k.Take(key, n, now); got != want {
			t.Errorf("take %v of %s at %v: %v, want %v", n, key, now, got, want)
		}
	}
	take("a", 3, true)
	take("a", 1, false)
	take("b", 2, true)
	take("c", 1, false) // two keys are in use
	now = now.Add(500 * time.Millisecond)
	take("a", 1, true)
	take("a", 0.5, false)
	now = now.Add(-time.Hour) // a clock that goes back gives nothing and takes nothing
	take("a", 1, false)
	now = now.Add(2 * time.Hour)
	take("c", 3, true) // the others are full again and forgotten
	take("a", 4, false)
	take("a", 3, true)
	if NewKeyed[string](Rate{}, 1).Take("a", 1, now) {
		t.Error("the zero rate allows something")
	}
}
