package check

import (
	"cmp"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// singleWriter is I15: Operations, Slot records and policies are written under a Lease only, or
// by an operator's hand; the Term of fenced writes never falls; and each Term has one writer.
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
			if leaders := e.Operation != nil || e.Bound != nil || e.Policy != nil; leaders && e.By != "operator" && e.By != "fault" {
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

// pending is a call that nobody knows the outcome of.
type pending struct {
	call trace.Call
	by   string
	// crashed: its caller will not hear an answer; it is under way until its deadline, or until
	// whoever leads next saw that it took effect, and recorded that.
	crashed, effected, seen bool
}

func (p pending) over(now time.Duration) bool { return p.crashed && (p.seen || now >= p.call.Deadline) }

// fencedCalls is I16: from when a call is sent until its caller has an outcome, or would have
// given it up had it not crashed, no coordinator sends another one for that Slot.
func fencedCalls(t trace.Trace) []Violation {
	var f findings
	under := map[string][]pending{} // by Slot
	for i, e := range t {
		slot := cmp.Or(e.Slot, e.Call.Name)
		switch e.Kind { //nolint:exhaustive // the others are about no call
		case trace.Called:
			for _, p := range under[slot] {
				if !p.over(e.At) {
					f.add(i, "call %d by %s for %s while call %d by %s is under way", e.Call.ID, e.By, slot, p.call.ID, p.by)
				}
			}
			under[slot] = append(under[slot], pending{call: e.Call, by: e.By})
		case trace.Answered:
			under[slot] = without(under[slot], e.Call.ID)
		case trace.Effected:
			for n, p := range under[slot] {
				under[slot][n].effected = p.effected || p.call.ID == e.Call.ID
			}
		case trace.Committed:
			if op := e.Operation; op != nil && (op.Phase != operation.Acting || op.CallOutcome != "") {
				for n, p := range under[op.Slot] {
					under[op.Slot][n].seen = p.seen || p.crashed && p.effected
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
