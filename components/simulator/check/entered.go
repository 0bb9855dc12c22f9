package check

import (
	"strings"

	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// entered is CTL-21: a transaction that accepts a spec, begins or ends a rollout, or changes an
// operator's record under a Lease has exactly one entry about it in the audit chain. The events of a
// transaction follow each other.
func entered(t trace.Trace) []Violation {
	var f findings
	states := map[string]operation.RolloutState{}
	for begin := 0; begin < len(t); {
		end := begin + 1
		for end < len(t) && t[begin].Kind == trace.Committed && t[end].Kind == trace.Committed && t[end].Index == t[begin].Index {
			end++
		}
		entries := map[string]int{}
		for _, e := range t[begin:end] {
			if e.Entry != nil && !e.Deleted {
				entries[e.Entry.Object]++
			}
		}
		for _, e := range t[begin:end] {
			if n := entries[e.Key]; e.Kind == trace.Committed && needsEntry(e, states) && n != 1 {
				f.add(end-1, "%s is written by %s with %d entries in the audit chain", e.Key, e.By, n)
			}
		}
		begin = end
	}
	return f
}

// needsEntry reports whether the change of a record needs an entry. states are those of the rollouts
// before.
func needsEntry(e trace.Event, states map[string]operation.RolloutState) bool {
	switch {
	case e.Term == 0:
		return false
	case store.Audited(e.Key):
		return true
	case strings.HasPrefix(e.Key, store.GroupsPrefix) && strings.HasSuffix(e.Key, "/accepted"):
		return !e.Deleted
	case e.Rollout == nil || e.Deleted:
		return false
	}
	before, known := states[e.Key]
	states[e.Key] = e.Rollout.State
	if !known {
		return true
	}
	ended := !e.Rollout.State.Moves() && e.Rollout.State != operation.PausedState && e.Rollout.State != operation.BakingState
	return ended && before != e.Rollout.State
}
