package link

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func facts(boot, instance string) Facts { return Facts{Dials: true, Boot: boot, Instance: instance} }

// Each case is a script: events, and what each must cause.
func TestScripts(t *testing.T) {
	type step struct {
		on    Event
		phase Phase
		want  []Effect
	}
	long, short := 2*steady, steady/2
	for name, script := range map[string][]step{
		"dialer connects, loses, redials at once": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Connected{Session: 7, Boot: "b1", Attempt: 1}, Up, []Effect{Use{7}}},
			{Changed{facts("b1", "i1")}, Up, nil},
			{Lost{Session: 6, Lived: long}, Up, nil},
			{Lost{Session: 7, Lived: long}, Dialing, []Effect{Cancel{}, Dial{3, "i1", "b1"}}},
		},
		"a session that flaps backs off": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Connected{Session: 7, Boot: "b1", Attempt: 1}, Up, []Effect{Use{7}}},
			{Lost{Session: 7, Lived: short}, BackOff, []Effect{Cancel{}, Arm{3, backOffMin / 2}}},
			{Timer{Attempt: 2}, BackOff, nil},
			{Timer{Attempt: 3}, Dialing, []Effect{Cancel{}, Dial{4, "i1", "b1"}}},
		},
		"failures wait longer each time, new facts not at all": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Failed{Attempt: 1}, BackOff, []Effect{Cancel{}, Arm{2, backOffMin / 2}}},
			{Timer{2}, Dialing, []Effect{Cancel{}, Dial{3, "i1", "b1"}}},
			{Failed{Attempt: 3, Jitter: 1}, BackOff, []Effect{Cancel{}, Arm{4, 2 * backOffMin}}},
			{Changed{facts("b1", "i1")}, BackOff, nil},
			{Changed{facts("b2", "i1")}, Dialing, []Effect{Cancel{}, Dial{5, "i1", "b2"}}},
			{Timer{4}, Dialing, nil},
			{Failed{Attempt: 3}, Dialing, nil},
			{Failed{Attempt: 5}, BackOff, []Effect{Cancel{}, Arm{6, backOffMin / 2}}},
		},
		"a result of old facts is closed": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Changed{facts("b2", "i2")}, Dialing, []Effect{Cancel{}, Dial{2, "i2", "b2"}}},
			{Connected{Session: 7, Boot: "b1", Attempt: 1}, Dialing, []Effect{Close{7, ErrReplaced}}},
			{Connected{Session: 8, Boot: "b2", Attempt: 2}, Up, []Effect{Use{8}}},
		},
		"a new boot ends the old session": {
			{Changed{Facts{Boot: "b1"}}, Awaited, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1"}, Up, []Effect{Cancel{}, Use{1}}},
			{Changed{Facts{Boot: "b2"}}, Awaited, []Effect{Close{1, ErrRevoked}, Cancel{}}},
			{Connected{Session: 2, Boot: "b1"}, Awaited, []Effect{Close{2, ErrRevoked}}},
			{Connected{Session: 3, Boot: "b2"}, Up, []Effect{Cancel{}, Use{3}}},
		},
		"same boot: the newer connection replaces the older": {
			{Changed{Facts{Boot: "b1"}}, Awaited, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1"}, Up, []Effect{Cancel{}, Use{1}}},
			{Connected{Session: 2, Boot: "b1"}, Up, []Effect{Close{1, ErrReplaced}, Use{2}}},
			{Lost{Session: 1, Lived: long}, Up, nil},
		},
		"an instance moves": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Connected{Session: 1, Boot: "b1", Attempt: 1}, Up, []Effect{Use{1}}},
			{Changed{facts("b1", "i2")}, Dialing, []Effect{Close{1, ErrMoved}, Cancel{}, Dial{3, "i2", "b1"}}},
		},
		"a worker without a boot is absent": {
			{Changed{facts("", "i1")}, Absent, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1"}, Absent, []Effect{Close{1, ErrRevoked}}},
			{Changed{Facts{Dials: true, Boot: "b1"}}, Absent, []Effect{Cancel{}}},
		},
		"a coordinator without a known boot is dialed": {
			{Changed{Facts{Dials: true, AnyBoot: true, Instance: "i1"}}, Dialing, []Effect{Cancel{}, Dial{1, "i1", ""}}},
			{Connected{Session: 1, Boot: "b9", Attempt: 1}, Up, []Effect{Use{1}}},
			{Changed{Facts{Dials: true, AnyBoot: true, Instance: "i1", Boot: "b9"}}, Up, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			for i, st := range script {
				var got []Effect
				s, got = s.Step(st.on)
				if !reflect.DeepEqual(got, st.want) || s.Phase != st.phase {
					t.Fatalf("step %d, %#v: got %s %#v, want %s %#v", i, st.on, s.Phase, got, st.phase, st.want)
				}
			}
		})
	}
}

// For any order of events: one Session in use at most, only one that the facts
// admit; never a wait without a timer; waits stay within their bounds.
func TestInvariants(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s State
		var history []string
		open := map[uint64]string{} // sessions not closed, by boot
		var inUse, next uint64
		dialing, armed := uint64(0), uint64(0)
		for range 40 {
			var ev Event
			switch r.IntN(6) {
			case 0:
				ev = Changed{Facts{
					Dials: r.IntN(2) == 0, AnyBoot: r.IntN(4) == 0,
					Boot:     []string{"", "b1", "b2"}[r.IntN(3)],
					Instance: []string{"", "i1", "i2"}[r.IntN(3)],
				}}
			case 1, 2:
				next++
				c := Connected{Session: next, Boot: []string{"b1", "b2"}[r.IntN(2)]}
				if r.IntN(2) == 0 {
					c.Attempt = dialing
				}
				open[next] = c.Boot
				ev = c
			case 3:
				ev = Failed{Attempt: dialing, Jitter: r.Float64()}
			case 4:
				id := uint64(r.IntN(int(next + 1)))
				delete(open, id)
				ev = Lost{Session: id, Lived: time.Duration(r.IntN(3)) * steady, Jitter: r.Float64()}
			case 5:
				ev = Timer{Attempt: armed}
			}
			var effects []Effect
			s, effects = s.Step(ev)
			history = append(history, fmt.Sprintf("%#v -> %s %#v", ev, s.Phase, effects))
			if l, ok := ev.(Lost); ok && l.Session == inUse {
				inUse = 0
			}
			for _, e := range effects {
				switch e := e.(type) {
				case Cancel:
					armed = 0
				case Dial:
					dialing = e.Attempt
				case Arm:
					armed = e.Attempt
					if e.After < backOffMin/2 || e.After > backOffMax {
						t.Fatalf("seed %d: wait of %v\n%v", seed, e.After, history)
					}
				case Use:
					inUse = e.Session
				case Close:
					delete(open, e.Session)
					if e.Session == inUse {
						inUse = 0
					}
				}
			}
			if (s.Phase == Up) != (inUse != 0) {
				t.Fatalf("seed %d: phase %s with session %d in use\n%v", seed, s.Phase, inUse, history)
			}
			if inUse != 0 && !s.Facts().Admits(open[inUse]) {
				t.Fatalf("seed %d: session of boot %s in use\n%v", seed, open[inUse], history)
			}
			for id := range open {
				if id != inUse {
					t.Fatalf("seed %d: session %d neither used nor closed\n%v", seed, id, history)
				}
			}
			if s.Phase == BackOff && armed == 0 {
				t.Fatalf("seed %d: waits without a timer\n%v", seed, history)
			}
		}
	}
}
