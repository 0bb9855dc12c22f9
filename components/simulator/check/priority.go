package check

import (
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/queue"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// waitsAt is a limit of the cluster that alone holds the next step of a Slot, since a time.
type waitsAt struct {
	limit queue.Limit
	since time.Duration
}

// priority is R98: no limited work of a group takes the place that a group of higher priority waits for, as far as a
// leader may know. Only a group that nothing but that limit holds keeps a place. Repairs and requests by name take none.
func priority(t trace.Trace) []Violation {
	var f findings
	all := []limitsFrom{{}}
	line, entered := map[string]waitsAt{}, map[string]bool{} // entered are the rollouts with a place
	walk(t, func(s *state, i int, e trace.Event) {
		if e.Kind != trace.Committed {
			return
		}
		if strings.HasPrefix(e.Key, "groups/"+e.Group+"/slots/") {
			if was := line[e.Slot]; e.Deleted || e.Waits == "" {
				delete(line, e.Slot)
			} else if was.limit != e.Waits {
				line[e.Slot] = waitsAt{e.Waits, e.At}
			}
		}
		if e.Limits != nil {
			all = append(all, limitsFrom{e.At, ifKept(e, e.Limits)})
		}
		op := e.Operation
		if op == nil || e.Deleted || op.Phase.Ended() || s.operations[op.ID] != nil {
			return
		}
		delete(line, op.Slot)
		limit := limitOf(op)
		if limit == "" {
			return
		}
		bounds := []queue.Limit{limit}
		if limit == queue.Steps && !entered[op.Rollout] {
			entered[op.Rollout] = true
			bounds = append(bounds, queue.Rollouts)
		}
		for _, bound := range bounds {
			ahead := s.ahead(line, op.Group, bound)
			used, rollouts := s.limitedWork(limit)
			if delete(rollouts, op.Group); bound == queue.Rollouts {
				used = len(rollouts)
			}
			room := func(l *store.Limits) bool {
				return valueOf(l, bound) == 0 || valueOf(l, bound)-used > len(ahead)
			}
			if len(ahead) > 0 && !anyWithin(all, e.At, room) {
				f.add(i, "%s begins for %s at the limit %s, and %v of a higher priority waits for that limit alone", op.ID, op.Slot, bound, ahead)
			}
		}
	})
	return f
}

// valueOf is the value of a limit; 0: there is none.
func valueOf(l *store.Limits, name queue.Limit) int {
	if l == nil {
		return 0
	}
	return queue.Limits{Steps: l.Steps, Rollouts: l.Rollouts, Creations: l.Creations}.Of(name)
}

// limitsFrom are the limits from a time on; nil: none.
type limitsFrom struct {
	from time.Duration
	to   *store.Limits
}

// anyWithin reports that it is true for limits that a leader may know.
func anyWithin(all []limitsFrom, now time.Duration, is func(*store.Limits) bool) bool {
	for _, one := range slices.Backward(all) {
		if is(one.to) {
			return true
		}
		if now-one.from > EvidenceAge {
			break
		}
	}
	return false
}

// ahead lists the groups of a higher priority that wait for a limit alone, and long enough that each leader knows it.
func (s *state) ahead(line map[string]waitsAt, of string, limit queue.Limit) (out []string) {
	_, own := s.priorities(of)
	for _, slot := range sortedNames(line) {
		m, w := s.member(slot), line[slot]
		if m.group == of || m.group == "" || w.limit != limit || s.now-w.since <= EvidenceAge || len(m.open) > 0 || s.ending(m.group) {
			continue
		}
		if lowest, _ := s.priorities(m.group); lowest > own && !slices.Contains(out, m.group) {
			out = append(out, m.group)
		}
	}
	return out
}

// priorities are the lowest and the highest priority of the specs that a decision may rest on. A group that did not exist
// has none.
func (s *state) priorities(name string) (lowest, highest int) {
	lowest = group.MaxPriority + 1
	for _, sp := range s.specsOf(name) {
		if sp == nil {
			return -1, group.MaxPriority
		}
		lowest, highest = min(lowest, sp.PriorityOrDefault()), max(highest, sp.PriorityOrDefault())
	}
	return lowest, highest
}
