package check

import (
	"cmp"
	"time"

	"cadre.dev/simulator/trace"
)

const (
	// commitsOfStep bounds the leader's writes for one step of a member: a dozen phases with their
	// reasons, each with the Slot's and the group's status, and on the way the policy, the rollout
	// and the Slot's record.
	commitsOfStep = 40
	// stepsInMinute is how many steps a member can make in a minute. The fastest simulated boots
	// take 8 s; drain, admission and min_ready come on top.
	stepsInMinute = 3
	// commitsOfUpkeep bounds the leaders' other writes in a minute: takeovers of the Lease, specs,
	// requests, sweeps, one pass a second.
	commitsOfUpkeep = 120
	// callsInMinute bounds the calls for one Slot. An Operation changes at most three parts. It
	// repeats a call to a busy platform after 2, 4, 8, ... seconds, so five times in its first
	// minute. Two Operations may fall into one minute.
	callsInMinute = 2 * (3 + 5)
)

// paceOfCommits: the leaders' transactions in each minute are no more than continuous steps of all
// members would need. A loop that wakes itself by its own writes makes thousands, since virtual
// time does not pass meanwhile.
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

// window counts the events within the last minute.
type window struct{ times []time.Duration }

// passes adds an event at now, and reports that there are more than limit. The count then starts
// again, so that one burst is reported once.
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
