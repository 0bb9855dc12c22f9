package catalog

import (
	"testing"
	"time"
)

// A burst is available at once, then one write per second. The delay is logged once until the whole
// burst was available again.
func TestPace(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var p pace
	for n := range burst {
		if wait := p.wait(now); wait != 0 {
			t.Fatalf("write %d waits %s", n, wait)
		}
		p = p.spend(now)
	}
	warnings := 0
	warn := func() {
		next, first := p.warn()
		if p = next; first {
			warnings++
		}
	}
	for n := range 20 {
		if wait := p.wait(now); wait != refill {
			t.Fatalf("after %d s it waits %s", n, wait)
		}
		warn()
		now = now.Add(refill / 2)
		if wait := p.wait(now); wait != refill/2 {
			t.Fatalf("after %d.5 s it waits %s", n, wait)
		}
		warn()
		if now = now.Add(refill / 2); p.wait(now) != 0 {
			t.Fatalf("after %d s nothing came back", n+1)
		}
		p = p.spend(now)
	}
	if warnings != 1 {
		t.Errorf("%d warnings", warnings)
	}
	now = now.Add(burst * refill)
	for range burst {
		p = p.spend(now)
	}
	if wait := p.wait(now); wait != refill {
		t.Errorf("after a pause the whole burst is available, and then a write waits %s", wait)
	}
	if warn(); warnings != 2 {
		t.Errorf("%d warnings after another spell", warnings)
	}
}
