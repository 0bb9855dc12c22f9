package check

import (
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/simulator/trace"
)

// runBegan is the time at which each run begins, that of testing/synctest.
var runBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// clockSet is the offset of a coordinator's clock from a time on.
type clockSet struct {
	from, off time.Duration
}

// windows is R97: no step of a rollout begins to take a healthy member away outside of the spec's windows. The clock of
// the leader decides, and its evidence may be old: a window of the hours that this clock showed within that age passes.
// A window so opens early by the offset of the leader's clock alone.
func windows(t trace.Trace) []Violation {
	var f findings
	clocks := map[string][]clockSet{}
	walk(t, func(s *state, i int, e trace.Event) {
		setClock(clocks, e)
		op := s.disrupts(e)
		begins := op != nil && s.operations[op.ID] == nil // a step that has begun is finished
		if !begins || !s.rollsHealthy(op) {
			return
		}
		if r := s.rolloutAfter(t, i, op.Rollout); r != nil && r.Back != nil || s.overridden(op.Group, rollout.HoldOutsideWindow) {
			return
		}
		for _, sp := range s.specsOf(op.Group) {
			if sp == nil || mayBeOpen(sp, e.At, offsets(clocks[e.By], e.At)) {
				return
			}
		}
		f.add(i, "%s takes %s away outside of all windows", op.ID, op.Slot)
	})
	return f
}

// mayBeOpen: a window is open at a time that a clock with one of these offsets showed within the age of evidence.
func mayBeOpen(sp *group.Spec, now time.Duration, offsets []time.Duration) bool {
	for _, off := range offsets {
		opens, _, ok := sp.UpdatePolicy.Windows.Next(runBegan.Add(now + off - EvidenceAge))
		if ok && !opens.After(runBegan.Add(now+off)) {
			return true
		}
	}
	return false
}

// setClock records a fault that sets a clock, and the end of all faults.
func setClock(clocks map[string][]clockSet, e trace.Event) {
	switch {
	case e.Kind == trace.Healed:
		for name := range clocks {
			clocks[name] = append(clocks[name], clockSet{from: e.At})
		}
	case setsClock(e):
		words := strings.Fields(e.Text)
		if off, err := time.ParseDuration(words[len(words)-1]); err == nil {
			if clocks[words[1]] == nil {
				clocks[words[1]] = []clockSet{{}} // it was right before
			}
			clocks[words[1]] = append(clocks[words[1]], clockSet{e.At, off})
		}
	}
}

// offsets are those of a clock within the age of evidence.
func offsets(all []clockSet, now time.Duration) []time.Duration {
	out := []time.Duration{}
	for i := len(all) - 1; i >= 0; i-- {
		if out = append(out, all[i].off); now-all[i].from > EvidenceAge {
			break
		}
	}
	if len(out) == 0 {
		out = append(out, 0)
	}
	return out
}
