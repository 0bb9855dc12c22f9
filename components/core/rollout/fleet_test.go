package rollout

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestR120_WhenAFleetIsDark: the fleet needs at least darkFrom agents, and a silent share of at least one in
// darkShare.
func TestR120_WhenAFleetIsDark(t *testing.T) {
	large := darkFrom * darkShare
	for name, c := range map[string]struct {
		f    Fleet
		want bool
	}{
		"nobody is expected":  {Fleet{}, false},
		"all are heard":       {Fleet{Expected: large, Heard: large}, false},
		"the share is silent": {Fleet{Expected: large, Heard: large - darkFrom}, true},
		"one less":            {Fleet{Expected: large, Heard: large - darkFrom + 1}, false},
		"enough of them":      {Fleet{Expected: darkFrom}, true},
		"too few":             {Fleet{Expected: darkFrom - 1}, false},
		"more than expected":  {Fleet{Expected: large, Heard: large + 1}, false},
	} {
		if got := c.f.dark(time.Time{}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestR120_WhenSilenceIsNoFailureOfSingleMembers: several agents are silent, more than one in fleetShare.
func TestR120_WhenSilenceIsNoFailureOfSingleMembers(t *testing.T) {
	for name, c := range map[string]struct {
		expected, silent int
		want             bool
	}{
		"one of three":          {3, 1, false},
		"two of three":          {3, 2, true},
		"a tenth":               {2 * fleetShare, 2, false},
		"a little more":         {2*fleetShare - 1, 2, true},
		"more than a tenth":     {2 * fleetShare, 3, true},
		"one of a large fleet":  {10 * fleetShare, 1, false},
		"none of a large fleet": {10 * fleetShare, 0, false},
	} {
		f := Fleet{Expected: c.expected, Heard: c.expected - c.silent}
		if got := f.manySilent(time.Time{}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestR120_ASplitCountsFromWhenSilenceBegan: a member that was unavailable for other reasons before is cut off like
// the others. A member that fell silent on another day does not count.
func TestR120_ASplitCountsFromWhenSilenceBegan(t *testing.T) {
	f := heals(3, "none")
	f.failing(1, "ready") // its check has failed for a long time, and its agent was heard until a moment ago
	f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now.Add(-40*time.Minute)
	heard := f.now.Add(-20 * time.Second)
	f.obs.Slots[1].Report.ReceivedAt = heard
	f.obs.Fleet = Fleet{Expected: 30, Heard: 20}
	for range 9 {
		f.obs.Fleet.Silences = append(f.obs.Fleet.Silences, f.now.Add(-10*time.Second))
	}
	p := f.plan()
	wantExecutes(t, p)
	if got := p.Slots[1].SilenceFrom; !got.Equal(heard) {
		t.Fatalf("silent from %s, heard at %s", got, heard)
	}
	f.rec.Slots[1], f.obs.Slots[1].Report = p.Slots[1], nil
	f.now = f.now.Add(4 * time.Minute)
	f.obs.At = f.now
	p = f.plan()
	wantExecutes(t, p)
	if got := p.Slots[1].SilenceFrom; !got.Equal(f.now) {
		t.Errorf("in a split silence counts from %s, not %s", got, f.now)
	}
}

// TestR120_HowManyFellSilentTogether compares with a count that evaluates each silence alone.
func TestR120_HowManyFellSilentTogether(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		f := Fleet{Expected: 40 + random.IntN(20), Heard: random.IntN(60)}
		moment := func() time.Time { return epoch.Add(time.Duration(random.IntN(40)) * silentTogether / 4) }
		for range random.IntN(20) {
			f.Silences = append(f.Silences, moment())
		}
		counted := func(at ...time.Time) int {
			n := f.silent()
			for _, since := range f.Silences {
				if apart([]time.Time{since}, at) {
					n--
				}
			}
			return max(n, 0)
		}
		var split int
		for _, at := range f.Silences {
			if n := counted(at); n*darkShare >= f.Expected {
				split = max(split, n)
			}
		}
		if all := f.silent(); len(f.Silences) == 0 && all*darkShare >= f.Expected {
			split = all
		}
		sorted := f.sorted()
		for _, at := range [][]time.Time{nil, {{}}, {moment()}, {moment(), moment()}, {moment(), moment(), moment()}, {moment(), {}}} {
			if got, want := sorted.with(at...), counted(at...); got != want {
				t.Fatalf("%+v: with %v are %d, want %d", f, at, got, want)
			}
		}
		if got := sorted.split(); got != split {
			t.Fatalf("%+v: a split of %d, want %d", f, got, split)
		}
	}
}
