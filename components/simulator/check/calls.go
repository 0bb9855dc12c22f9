package check

import (
	"strings"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// onceEffective is I17: a call takes effect once. Of all calls of one Operation for one part of its
// change one takes effect, however often it was repeated. A repetition by a fault of the platform
// is not counted.
func onceEffective(t trace.Trace) []Violation {
	type part struct {
		operation string
		rollout   string // a newer spec gives an Operation another rollout, or another number in it, and other parts
		order     int
		verb      cloud.Verb
	}
	var f findings
	calls, effects, parts := map[int]part{}, map[int]bool{}, map[part]int{}
	walk(t, func(s *state, i int, e trace.Event) {
		id := e.Call.ID
		if e.Kind == trace.Called {
			if op := s.member(e.Slot).acting(); op != nil && !harmless(op) {
				calls[id] = part{op.ID, op.Rollout, op.Order, e.Call.Verb}
			}
		}
		if e.Kind == trace.Lost {
			// The effect of the call is gone: repeating the call is no second effect.
			if op := s.member(e.Slot).acting(); op != nil {
				delete(parts, part{op.ID, op.Rollout, op.Order, cloud.Create})
			}
		}
		if slot := halted(e); slot != "" {
			// The effect of a start is gone in the same way.
			if op := s.member(slot).acting(); op != nil {
				delete(parts, part{op.ID, op.Rollout, op.Order, cloud.Restart})
			}
		}
		if e.Kind != trace.Effected || e.By == "fault" {
			return
		}
		if effects[id] {
			f.add(i, "call %d (%s %s) takes effect a second time", id, e.Call.Verb, e.Call.Name)
			return
		}
		effects[id] = true
		p, known := calls[id]
		if first, twice := parts[p]; known && twice {
			f.add(i, "%s of %s takes effect by call %d after it did by call %d", p.verb, p.operation, id, first)
			return
		}
		parts[p] = id
	})
	return f
}

// halted is the Slot whose CVM a fault stops with e; "": none.
func halted(e trace.Event) string {
	words := strings.Fields(e.Text)
	if e.Kind != trace.Faulted || len(words) < 2 || words[0] != "halt" {
		return ""
	}
	return words[1]
}

// harmless: the call stops a CVM, or writes the files of a CVM that the step stopped or found stopped. A platform
// without PartStop has no such step, except that its call starts the CVM or notes the change.
func harmless(op *operation.Operation) bool {
	return op.Call.Part == operation.PartStop || op.Call.Part == operation.PartCompose && op.Call.Has(operation.PartStop)
}

// writeAhead is I18: the writer of the record that announces a call sends it, after that record and
// as recorded. A refresh makes no call. No record is removed before its Operation ended. An
// Operation that ends after a call records the call's outcome, or why the Operation failed.
func writeAhead(t trace.Trace) []Violation {
	var f findings
	sent, latest := map[string]int{}, map[string]time.Duration{} // by Operation
	set := -noticesWithin
	walk(t, func(s *state, i int, e trace.Event) {
		if setsClock(e) {
			set = e.At
		}
		switch {
		case e.Kind == trace.Called:
			op := s.member(e.Slot).acting()
			if op == nil {
				f.add(i, "call %d for %s: no record announces it", e.Call.ID, e.Slot)
				return
			}
			sent[op.ID]++
			if latest[op.ID] = e.Call.Latest; e.At-set < noticesWithin {
				delete(latest, op.ID)
			}
			if why := s.unannounced(op, e, sent[op.ID]); why != "" {
				f.add(i, "call %d of %s: %s", e.Call.ID, op.ID, why)
			}
		case e.Kind == trace.Committed && e.Operation != nil:
			if why := s.endsOpen(e, latest[e.Operation.ID]); why != "" {
				f.add(i, "%s: %s", e.Operation.ID, why)
			}
		}
	})
	return f
}

// verbs are the calls that make each part of a change.
var verbs = map[operation.Part]cloud.Verb{
	operation.PartCreate: cloud.Create, operation.PartDelete: cloud.Delete, operation.PartRestart: cloud.Restart,
	operation.PartResources: cloud.Resize, operation.PartOSImage: cloud.Image, operation.PartCompose: cloud.Update,
	operation.PartStop: cloud.Stop,
}

// unannounced is why the record of op does not announce the call of e, the n-th call sent.
func (s *state) unannounced(op *operation.Operation, e trace.Event, n int) string {
	switch {
	case op.Way.Refreshes():
		return "it is a refresh, which makes no call"
	case op.Call.IssuedAt.IsZero() || n > op.Call.Number:
		return "the record does not count it"
	case op.Call.Outcome != "":
		return "the record says that it ended already"
	case verbs[op.Call.Part] != e.Call.Verb:
		return "it is " + string(e.Call.Verb) + ", the record says " + string(op.Call.Part)
	case e.Call.Verb != cloud.Create && op.CVM.VMUUID != "" && e.Call.VMUUID != "" && op.CVM.VMUUID != e.Call.VMUUID:
		return "it is for CVM " + e.Call.VMUUID + ", the record says " + op.CVM.VMUUID
	case s.caller[op.ID] != e.By:
		return "sent by " + e.By + ", announced by " + s.caller[op.ID]
	}
	return ""
}

// endsOpen is the fault in how an Operation with a call ends with e. Its last call may take effect
// until latest.
func (s *state) endsOpen(e trace.Event, latest time.Duration) string {
	op := e.Operation
	switch {
	case e.Deleted && !op.Phase.Ended():
		return "its record is removed in phase " + string(op.Phase)
	case e.Deleted || op.Call.Part == "":
	case op.Phase == operation.Done && op.Call.Outcome == "":
		return "it is done, and its call has no outcome"
	case op.Phase == operation.Aborted && op.Call.Outcome == "" && e.At < latest:
		return "it is " + string(op.Phase) + ", and its call, which has no outcome, may still take effect"
	case op.Phase == operation.Failed && op.Failure.Cause == "":
		return "it failed after a call, and gives no cause"
	}
	return ""
}
