package link

import (
	"testing"
	"time"
)

// In the long run, this side dials an unreachable Peer, or a member that refuses, every two
// seconds. It dials a coordinator that refuses every five seconds.
func TestACoordinatorThatRefusesIsAskedSeldom(t *testing.T) {
	for _, c := range []struct {
		facts   Facts
		refused bool
		least   time.Duration
		most    time.Duration
	}{
		{facts("b1", "i1"), true, backOffMax / 2, backOffMax},
		{Facts{Dials: true, AnyBoot: true, Instance: "i1"}, false, backOffMax / 2, backOffMax},
		{Facts{Dials: true, AnyBoot: true, Instance: "i1"}, true, refusedMax / 2, refusedMax},
	} {
		s, effects := State{}.Step(Changed{c.facts})
		var after time.Duration
		for n := range 12 {
			try := effects[len(effects)-1].(Dial).Try
			s, effects = s.Step(Failed{Try: try, Refused: c.refused, Jitter: float64(n%2) * 0.99})
			armed := effects[len(effects)-1].(Arm)
			if armed.After < after/2 {
				t.Fatalf("after %v it waits for %v", after, armed.After)
			}
			after = armed.After
			s, effects = s.Step(Timer{Try: armed.Try})
		}
		if after < c.least || after > c.most {
			t.Errorf("refused %v: it waits for %v in the end, want %v to %v", c.refused, after, c.least, c.most)
		}
	}
}
