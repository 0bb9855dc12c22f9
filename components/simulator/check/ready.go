package check

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// blink is how long a member may be unhealthy without a report to every coordinator.
const blink = time.Minute

// stretch is since when a Boot serves without longer breaks, and when the serving before it ended.
type stretch struct {
	boot           string
	since, stopped time.Duration
}

// counted: no member counts before it has served for min_ready. A step is done only then. A younger
// member is away for any Operation that starts to take another member, or proceeds to its call. The
// check pauses for some minutes after a change of clocks or of connections to members, by which a
// coordinator counts.
func counted(t trace.Trace) []Violation {
	var f findings
	all := map[string]stretch{}
	apart, skewed := since{index: -1}, false
	walk(t, func(s *state, i int, e trace.Event) {
		was := all[e.Slot]
		switch {
		case e.Kind == trace.Served:
			if was.boot != e.Boot || e.At-was.stopped > blink {
				was.since = e.At
			}
			was.boot = e.Boot
			all[e.Slot] = was
		case e.Kind == trace.Stopped:
			was.stopped = e.At
			all[e.Slot] = was
		case e.Kind == trace.Faulted && partsFromMembers(e.Text):
			skewed = skewed || setsClock(e)
			apart = since{i, e.At}
		case e.Kind == trace.Healed && skewed: // a clock is set right again
			apart = since{i, e.At}
		}
		if apart.index >= 0 && e.At-apart.at <= mayPart {
			return
		}
		if why := s.doneEarly(e, all); why != "" {
			f.add(i, "%s", why)
		}
		if why := s.besideUnready(e, all); why != "" {
			f.add(i, "%s", why)
		}
	})
	return f
}

// leastReady is the lowest min_ready of the specs that a decision may rest on.
func (s *state) leastReady(name string) time.Duration {
	least := time.Duration(-1)
	for _, sp := range s.specsOf(name) {
		if sp == nil {
			return 0
		}
		if ready := group.MinReady(*sp); least < 0 || ready < least {
			least = ready
		}
	}
	return max(least-time.Second, 0) // reports carry whole milliseconds, by their senders' clocks
}

// doneEarly is why the step that ends with e is done too early; "": it is not, or no step ends.
func (s *state) doneEarly(e trace.Event, all map[string]stretch) string {
	op := e.Operation
	if e.Kind != trace.Committed || e.Deleted || op == nil || op.Phase != operation.Done || s.operations[op.ID] == nil || s.operations[op.ID].Phase != operation.Settling || !s.member(op.Slot).serves() {
		return ""
	}
	if served := e.At - all[op.Slot].since; served < s.leastReady(op.Group) && !op.Way.Refreshes() {
		return op.ID + " is done, and " + op.Slot + " has served for " + served.String()
	}
	return ""
}

// besideUnready is why the Operation that takes its member away with e does so while another member
// does not count yet.
func (s *state) besideUnready(e trace.Event, all map[string]stretch) string {
	op := s.takes(e)
	if op == nil || s.mayBeDown(op.Slot) || s.unwanted(op.Group, op.Slot) || s.wasDown(op) || s.silent(op.Slot) {
		return ""
	}
	ready, why := s.leastReady(op.Group), ""
	if m := all[op.Slot]; s.now-m.since < ready {
		return "" // the member does not count itself: its loss takes nothing more away
	}
	for _, sp := range s.specsOf(op.Group) {
		out := 0
		for _, slot := range sp.Members() {
			one := all[slot]
			unready := s.member(slot).serves() && s.now-one.since < ready && s.now-one.stopped > EvidenceAge
			if slot != op.Slot && (unready || s.member(slot).away || s.down(slot)) {
				if out++; unready {
					why = op.ID + " takes " + op.Slot + " away, and " + slot + " serves since " + one.since.String()
				}
			}
		}
		if out+1 <= group.MaxUnavailable(*sp)+s.spare(sp) {
			return ""
		}
	}
	return why
}
