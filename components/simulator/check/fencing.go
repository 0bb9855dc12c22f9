package check

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// singleWriter is I15: records that only leaders may write are written under a Lease, or by an
// operator. The Lease itself is exempt. The Term of fenced writes never falls, and each Term has
// one writer.
func singleWriter(t trace.Trace) []Violation {
	var (
		f       findings
		highest uint64
	)
	writers := map[uint64]string{}
	for i, e := range t {
		switch {
		case e.Kind != trace.Committed:
			continue
		case e.Term == 0:
			if leaders(e.Key) && e.By != "operator" && e.By != "fault" {
				f.add(i, "%q writes %s without a Lease", e.By, e.Key)
			}
			continue
		case e.Term < highest:
			f.add(i, "%s writes %s with Term %d after Term %d", e.By, e.Key, e.Term, highest)
		case e.Operation != nil && !e.Deleted && e.Operation.Term > e.Term:
			f.add(i, "%s writes %s of Term %d with Term %d", e.By, e.Key, e.Operation.Term, e.Term)
		}
		highest = max(highest, e.Term)
		if by, known := writers[e.Term]; known && by != e.By {
			f.add(i, "%s and %s both write with Term %d", by, e.By, e.Term)
		}
		writers[e.Term] = e.By
	}
	return f
}

// leaders reports that only a leader, under its Lease, writes the record.
func leaders(key string) bool {
	kind, err := store.KindOf(key)
	return err == nil && kind.Writer == store.Leader && key != store.LeaseKey && key != store.TermKey
}

// pending is a call with an unknown outcome.
type pending struct {
	call trace.Call
	by   string
	// crashed: its caller died before an answer; unknown: its caller got no answer. Either way the
	// call is under way until it can take effect no more, or until a leader has seen its effect and
	// recorded that.
	crashed, unknown, effected, seen bool
	// reset: clocks were set directly before it was sent.
	reset bool
}

func (p pending) over(now time.Duration) bool {
	return p.unheard() && (p.seen || p.reset || now >= p.call.Latest)
}

// noticesWithin is how long a leader may take to notice that its clock was set. A call that it
// records meanwhile has its time by the new clock and is moved all the same. The call then waits
// for less than its possible delay, which this check tolerates.
const noticesWithin = 15 * time.Second

// setsClock reports that clocks are set with e, or set right.
func setsClock(e trace.Event) bool {
	return e.Kind == trace.Healed || e.Kind == trace.Faulted && strings.HasPrefix(e.Text, "skew ")
}

func (p pending) unheard() bool { return p.crashed || p.unknown }

// fencedCalls is I16: from the sending of a call until its outcome is known, or until it can take
// effect no more, no coordinator sends another call for that Slot.
func fencedCalls(t trace.Trace) []Violation {
	var f findings
	under := map[string][]pending{} // by Slot
	of := map[string]string{}       // Slots by Operation
	there := map[string]bool{}      // by Slot: a CVM has its name, so that no creation takes effect
	set := -noticesWithin
	for i, e := range t {
		if setsClock(e) {
			set = e.At
		}
		slot := cmp.Or(e.Slot, e.Call.Name)
		switch e.Kind { //nolint:exhaustive // the others are about no call
		case trace.Called:
			for _, p := range under[slot] {
				if !p.over(e.At) {
					f.add(i, "call %d by %s for %s while call %d by %s is under way", e.Call.ID, e.By, slot, p.call.ID, p.by)
				}
			}
			taken := e.Call.Verb == cloud.Create && there[slot]
			under[slot] = append(under[slot], pending{call: e.Call, by: e.By, reset: e.At-set < noticesWithin, effected: taken})
		case trace.Answered:
			if e.Outcome != trace.Unknown {
				under[slot] = without(under[slot], e.Call.ID)
			}
			for n, p := range under[slot] {
				under[slot][n].unknown = p.unknown || p.call.ID == e.Call.ID
			}
		case trace.Lost:
			// A call for a lost CVM has no effect.
			under[slot] = slices.DeleteFunc(under[slot], func(p pending) bool { return p.call.Verb != cloud.Create })
			there[slot] = false
		case trace.Declined:
			for n, p := range under[slot] {
				under[slot][n].effected = p.effected || p.call.ID == e.Call.ID
			}
		case trace.Effected:
			there[slot] = e.Call.Verb == cloud.Create || there[slot] && e.Call.Verb != cloud.Delete
			for n, p := range under[slot] {
				taken := p.call.Verb == cloud.Create && e.Call.Verb == cloud.Create
				under[slot][n].effected = p.effected || taken || p.call.ID == e.Call.ID
			}
		case trace.Committed:
			if op := e.Operation; op != nil {
				of[op.ID] = op.Slot
			}
			if q := e.Asked; q != nil && !e.Deleted && q.Kind == store.RequestResolve {
				// An operator, who knows the outcome, reports it.
				under[of[q.Operation]] = slices.DeleteFunc(under[of[q.Operation]], pending.unheard)
			}
			if op := e.Operation; op != nil && (op.Phase != operation.Acting || op.Call.Outcome != "") {
				for n, p := range under[op.Slot] {
					under[op.Slot][n].seen = p.seen || p.unheard() && p.effected
				}
			}
		case trace.Crashed:
			for _, calls := range under {
				for n := range calls {
					calls[n].crashed = calls[n].crashed || calls[n].by == e.By
				}
			}
		}
	}
	return f
}

func without(calls []pending, id int) []pending {
	var out []pending
	for _, p := range calls {
		if p.call.ID != id {
			out = append(out, p)
		}
	}
	return out
}
