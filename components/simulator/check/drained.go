package check

import (
	"strings"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// drainedFirst: a step that drains its member acts on it only once the member's agent has drained
// it. All hooks have ended without a hold, and leadership was handed over. The record cannot prove
// that, because the engine itself writes it.
//
// The check does not apply where the drain's time is over, or where the step is half done. Nor does
// it apply where no agent could answer: the Boot to drain is gone, or its agent is unheard.
func drainedFirst(t trace.Trace) []Violation {
	var f findings
	began, drained := map[string]since{}, map[string]int{}
	apart := since{index: -1}
	walk(t, func(s *state, i int, e trace.Event) {
		op := e.Operation
		switch {
		case e.Kind == trace.Drained:
			drained[e.Slot] = i
		case e.Kind == trace.Faulted && partsFromMembers(e.Text):
			apart = since{i, e.At}
		case e.Kind == trace.Committed && !e.Deleted && op != nil && op.Phase == operation.Draining:
			if _, known := began[op.ID]; !known {
				began[op.ID] = since{i, e.At}
			}
		}
		if op = s.acts(e); op == nil || op.Way.SkipDrain || op.Set.Leaves || len(op.Call.Applied) > 0 || overtime(op) {
			return
		}
		from, drains := began[op.ID]
		m := s.member(op.Slot)
		last, did := drained[op.Slot]
		answers := m.serves() && m.servedAt < from.index && !m.muted && m.heardAt <= from.at && (apart.index < 0 || e.At-apart.at > mayPart)
		if drains && answers && (!did || last < from.index) {
			f.add(i, "%s acts on %s, whose agent has not drained it", op.ID, op.Slot)
		}
	})
	return f
}

// since is an event and its time.
type since struct {
	index int
	at    time.Duration
}

// mayPart is how long a coordinator may not hear members that others hear, and how long it may take
// their reports for old by its clock.
const mayPart = 3 * time.Minute

// partsFromMembers: a fault cuts a coordinator off from members, or makes it take their reports for
// old.
func partsFromMembers(fault string) bool {
	return strings.HasPrefix(fault, "cut-members") || strings.HasPrefix(fault, "skew")
}
