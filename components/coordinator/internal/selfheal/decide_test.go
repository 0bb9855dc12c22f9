package selfheal

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// three are the coordinators of a whole cluster, seen from coordinator-0.
func three() []Member {
	out := []Member{{Slot: "coordinator-0", VMUUID: "vm-0"}}
	for n := 1; n < 3; n++ {
		out = append(out, Member{Slot: fmt.Sprintf("coordinator-%d", n), VMUUID: fmt.Sprintf("vm-%d", n), Connected: true})
	}
	return out
}

// down is the coordinators of which these stopped.
func down(slots ...int) []Member {
	out := three()
	for _, n := range slots {
		out[n].Stopped, out[n].Connected = true, false
	}
	return out
}

// TestTheLeaderStartsAStoppedCoordinator has a listing every 15 s for five minutes, and lists when which
// coordinator is started. No call brings one back.
func TestTheLeaderStartsAStoppedCoordinator(t *testing.T) {
	with := func(members []Member, change func(*Evaluation)) Evaluation {
		e := Evaluation{Self: "coordinator-0", Leader: "coordinator-0", Members: members}
		if change != nil {
			change(&e)
		}
		return e
	}
	for name, c := range map[string]struct {
		e    Evaluation
		want []string
	}{
		"all run":           {with(three(), nil), nil},
		"one is stopped":    {with(down(1), nil), []string{"1m0s coordinator-1", "3m0s coordinator-1"}},
		"a follower":        {with(down(1), func(e *Evaluation) { e.Leader = "coordinator-2" }), nil},
		"the freeze of all": {with(down(1), func(e *Evaluation) { e.Frozen = true }), nil},
		"a Session is open": {with(down(1), func(e *Evaluation) { e.Members[1].Connected = true }), nil},
		"it is on its way":  {with(down(1), func(e *Evaluation) { e.Members[1].Stopped = false }), nil},
		"the leader is the stopped one": {with(down(1), func(e *Evaluation) { e.Leader = "coordinator-1" }),
			[]string{"1m0s coordinator-1", "3m0s coordinator-1"}},
		"two are stopped, the records name no leader": {with(down(1, 2), func(e *Evaluation) { e.Leader = "" }),
			// One at a time: the second follows when the first did not leave the word stopped.
			[]string{"1m0s coordinator-1", "3m0s coordinator-1", "5m0s coordinator-2"}},
		"no leader, and another coordinator comes first": {with(down(2), func(e *Evaluation) { e.Self, e.Leader = "coordinator-1", ""; e.Members[0].Connected = true }), nil},
		"no leader, all run":                             {with(three(), func(e *Evaluation) { e.Leader = "" }), nil},
		"the listing lacks this coordinator":             {with(down(1)[1:], func(e *Evaluation) { e.Leader = "" }), nil},
		"this coordinator itself is listed as stopped":   {with(down(0), nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			var got []string
			began := time.Now()
			for at := time.Duration(0); at <= 5*time.Minute; at += 15 * time.Second {
				if m, ok := s.Next(c.e, began.Add(at)); ok {
					got = append(got, at.String()+" "+m.Slot)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("started %q, want %q", got, c.want)
			}
		})
	}
}

// TestTheSecondCoordinatorFollowsTheFirst: after a power cut of two of three, the second start waits
// until the first coordinator is connected, and not longer.
func TestTheSecondCoordinatorFollowsTheFirst(t *testing.T) {
	var s State
	began := time.Now()
	var got []string
	for at := time.Duration(0); at <= 10*time.Minute; at += 15 * time.Second {
		e := Evaluation{Self: "coordinator-0", Members: down(1, 2)}
		switch {
		case at >= 2*time.Minute: // booted
			e.Members = down(2)
			e.Leader = "coordinator-1" // it was elected, and has the Lease
		case at > time.Minute: // boots
			e.Members[1].Stopped = false
		}
		if at >= 3*time.Minute {
			e.Leader = "coordinator-0"
		}
		if at >= 4*time.Minute {
			e.Members[2].Stopped, e.Members[2].Connected = false, true
		}
		if m, ok := s.Next(e, began.Add(at)); ok {
			got = append(got, at.String()+" "+m.Slot)
		}
	}
	if want := []string{"1m0s coordinator-1", "3m0s coordinator-2"}; !slices.Equal(got, want) {
		t.Errorf("started %q, want %q", got, want)
	}
}

// TestBackOffGrowsAndIsForgotten: each start in a row doubles the wait, up to an hour. Ten minutes of a
// connected coordinator make the next fault the first one again.
func TestBackOffGrowsAndIsForgotten(t *testing.T) {
	var s State
	now, stopped := time.Now(), Evaluation{Self: "coordinator-0", Leader: "coordinator-0", Members: down(1)}
	var waits []time.Duration
	for last := now; len(waits) < 9; now = now.Add(15 * time.Second) {
		if _, ok := s.Next(stopped, now); ok {
			waits, last = append(waits, now.Sub(last)), now
		}
	}
	want := []time.Duration{1 * time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour, time.Hour}
	if !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	for range 41 {
		s.Next(Evaluation{Self: "coordinator-0", Leader: "coordinator-0", Members: three()}, now)
		now = now.Add(15 * time.Second)
	}
	if n := s.Starts("coordinator-1"); n != 0 {
		t.Errorf("%d starts count after it was well", n)
	}
}

// TestAPausedProcessObservesAgain: observations from before a pause of the process are old.
func TestAPausedProcessObservesAgain(t *testing.T) {
	var s State
	now, stopped := time.Now(), Evaluation{Self: "coordinator-0", Leader: "coordinator-0", Members: down(1)}
	s.Next(stopped, now)
	s.Next(stopped, now.Add(30*time.Second))
	if m, ok := s.Next(stopped, now.Add(time.Hour)); ok {
		t.Errorf("%s is started by an observation of an hour ago", m.Slot)
	}
}
