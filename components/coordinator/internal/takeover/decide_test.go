package takeover

import (
	"testing"
	"time"
)

func TestALeaseIsEndedOnceItsHolderIsGivenUpForLong(t *testing.T) {
	failed := Evaluation{Leader: "coordinator-0", Term: 3, Failed: true}
	with := func(change func(*Evaluation)) Evaluation {
		l := failed
		change(&l)
		return l
	}
	electing := with(func(l *Evaluation) { l.Elects = true })
	type at struct {
		ms   int
		look Evaluation
	}
	steady := func(from, to int, l Evaluation) (out []at) {
		for ms := from; ms <= to; ms += 500 {
			out = append(out, at{ms, l})
		}
		return out
	}
	join := func(parts ...[]at) (out []at) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for name, c := range map[string]struct {
		looks []at
		ended int // ms of the first end; -1: never
	}{
		"lost":                            {steady(0, 6000, failed), 4000},
		"not long enough":                 {steady(0, 3500, failed), -1},
		"alive":                           {steady(0, 9000, with(func(l *Evaluation) { l.Failed = false })), -1},
		"no leader":                       {steady(0, 9000, Evaluation{Failed: true}), -1},
		"its server leads Consul":         {steady(0, 9000, with(func(l *Evaluation) { l.LeadsRaft = true })), -1},
		"it came back in between":         {join(steady(0, 3500, failed), steady(3600, 3600, with(func(l *Evaluation) { l.Failed = false })), steady(4000, 7900, failed)), -1},
		"it led Consul in between":        {join(steady(0, 3500, failed), steady(3600, 3600, with(func(l *Evaluation) { l.LeadsRaft = true })), steady(4000, 8000, failed)), 8000},
		"Consul elects in between":        {join(steady(0, 2000, failed), steady(2500, 3500, electing), steady(4000, 5000, failed)), 4000},
		"Consul elects":                   {steady(0, 9000, electing), -1},
		"Consul elects first":             {join(steady(0, 3500, electing), steady(4000, 9000, failed)), 4000},
		"another leads meanwhile":         {join(steady(0, 3500, failed), steady(4000, 7500, with(func(l *Evaluation) { l.Leader = "coordinator-1" }))), -1},
		"it leads again":                  {join(steady(0, 3500, failed), steady(4000, 7500, with(func(l *Evaluation) { l.Term = 4 }))), -1},
		"the one who looks was stopped":   {join(steady(0, 500, failed), steady(60000, 63500, failed)), -1},
		"it was stopped and looks for on": {join(steady(0, 500, failed), steady(60000, 64000, failed)), 64000},
	} {
		t.Run(name, func(t *testing.T) {
			var w watch
			began, ended := time.Now(), -1
			for _, one := range c.looks {
				if w.next(one.look, began.Add(time.Duration(one.ms)*time.Millisecond)) && ended < 0 {
					ended = one.ms
				}
			}
			if ended != c.ended {
				t.Errorf("ended after %d ms, want %d", ended, c.ended)
			}
		})
	}
}
