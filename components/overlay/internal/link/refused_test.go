package link

import (
	"testing"
	"time"
)

// TestAPeerThatRefusesIsAskedSeldom: one that cannot be reached is asked every two seconds,
// one that is there and refuses four times a minute in the end.
func TestAPeerThatRefusesIsAskedSeldom(t *testing.T) {
	for _, c := range []struct {
		refused bool
		least   time.Duration
		most    time.Duration
	}{{false, backOffMax / 2, backOffMax}, {true, refusedMax / 2, refusedMax}} {
		s, effects := State{}.Step(Changed{facts("b1", "i1")})
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
