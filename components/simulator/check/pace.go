package check

import (
	"cmp"
	"time"

	"cadre.dev/simulator/trace"
)

const (
	// commitsOfStep is what one step of a member makes the leader write at most: a dozen
	// phases with their reasons, each with the Slot's and the group's status, and the policy,
	// the rollout and the Slot's record on the way.
	commitsOfStep = 40
	// stepsInMinute is how many steps a member can make in one: the quickest boots that are
	// simulated take 8 s, and drain, admission and min_ready come on top.
	stepsInMinute = 3
	// commitsOfUpkeep is what else leaders write in a minute: taking the Lease over, specs,
	// requests, sweeps, one look a second.
	commitsOfUpkeep = 120
	// callsInMinute for one Slot: an Operation changes three parts at most, and repeats a
	// call that the platform is too busy for after 2, 4, 8, ... seconds, so five times in its
	// first minute; two Operations may fall into one.
	callsInMinute = 2 * (3 + 5)
)

// paceOfCommits: transactions of leaders in each minute of the run are no more than if all
// members made steps all the time. A loop that wakes itself by its own writes makes thousands:
// virtual time does not pass meanwhile.
func paceOfCommits(t trace.Trace) []Violation {
	var (
		f    findings
		w    window
		last uint64
	)
	walk(t, func(s *state, i int, e trace.Event) {
		if e.Kind != trace.Committed || e.Term == 0 || e.Index == last && last != 0 {
			return
		}
		last = e.Index
		limit := commitsOfUpkeep + commitsOfStep*stepsInMinute*len(s.members)
		if w.passes(e.At, limit) {
			f.add(i, "leaders wrote more than %d times in a minute", limit)
		}
	})
	return f
}

// paceOfCalls: calls for each Slot in each minute are bounded.
func paceOfCalls(t trace.Trace) []Violation {
	var f findings
	windows := map[string]*window{}
	for i, e := range t {
		if e.Kind != trace.Called {
			continue
		}
		slot := cmp.Or(e.Slot, e.Call.Name)
		if windows[slot] == nil {
			windows[slot] = &window{}
		}
		if windows[slot].passes(e.At, callsInMinute) {
			f.add(i, "%s got more than %d calls in a minute", slot, callsInMinute)
		}
	}
	return f
}

// window counts what happened within the last minute.
type window struct{ times []time.Duration }

// passes adds one at now, and reports that there are more than limit; then it counts anew, so
// that one burst is told of once.
func (w *window) passes(now time.Duration, limit int) bool {
	for len(w.times) > 0 && now-w.times[0] >= time.Minute {
		w.times = w.times[1:]
	}
	if w.times = append(w.times, now); len(w.times) <= limit {
		return false
	}
	w.times = nil
	return true
}
