package check

import (
	"maps"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// halt is I6, as Operations show it and as the rollout's own record shows it.
func halt(t trace.Trace) []Violation {
	return slices.Concat(each(haltedByStep)(t), haltedByVerdict(t))
}

// haltedByVerdict: no step of a rollout is recorded while the rollout's record is FAILED. The
// record also covers failures that no single step shows, such as hooks or the deadline. Both writes
// may be in one transaction, in any order.
func haltedByVerdict(t trace.Trace) []Violation {
	var f findings
	walk(t, func(s *state, i int, e trace.Event) {
		op := e.Operation
		if e.Kind != trace.Committed || e.Deleted || op == nil || s.operations[op.ID] != nil || !ofRollout(op) {
			return
		}
		r := s.rolloutAfter(t, i, op.Rollout)
		if r != nil && r.State == operation.FailedState {
			f.add(i, "%s begins for %s although its rollout failed: %s", op.ID, op.Slot, r.Reason)
		}
	})
	return f
}

// rolloutAfter is the record of a rollout after the transaction of the event at i.
func (s *state) rolloutAfter(t trace.Trace, i int, id string) *operation.Rollout {
	r := s.rollouts[id]
	for _, next := range t[i:] {
		if next.Kind != trace.Committed || next.Index != t[i].Index {
			break
		}
		if next.Rollout != nil && next.Rollout.ID == id {
			r = next.Rollout
		}
	}
	return r
}

// haltedByStep is I6, as far as Operations show it. After a step of a rollout failed, no later step
// takes another Slot of that rollout away until the failed Slot serves again or an operator
// decides. A refusal of the platform is no failure of the rollout. A step that an operator requests
// is a decision. So many Slots may fail as max_failed permits (R100).
func haltedByStep(s *state, e trace.Event) []string {
	op := s.disrupts(e)
	if op == nil || !op.Kind.Rolls(op.Actor) || op.Actor == operation.ActorOperator || op.Request.ID != "" || op.Rollout == "" {
		return nil
	}
	slots, message := map[string]bool{}, []string(nil)
	for _, id := range sortedNames(s.operations) {
		failed := s.operations[id]
		if failed.Rollout == op.Rollout && failed.To == op.To && failed.Slot != op.Slot && s.halts(failed) && s.recordedAfter(op, failed) && !s.askedSince(op, failed) {
			slots[failed.Slot] = true
			message = wrong("%s takes %s away although %s of the same rollout failed: %s", op.ID, op.Slot, failed.ID, failed.Reason)
		}
	}
	if slices.ContainsFunc(s.specsOf(op.Group), func(sp *group.Spec) bool { return sp != nil && len(slots) <= sp.UpdatePolicy.MaxFailed }) {
		return nil
	}
	return message
}

// freezeSwitch is the operators' key that stops everything while it exists.
var freezeSwitch = freezeOf(store.Everywhere)

// freezeOf is the same key for one group.
func freezeOf(group string) string { return "control/freeze/" + group }

// freeze is I6 for an operator's freeze. While the cluster or the group is frozen, no Operation
// takes a member away, for any actor. Steps under way go on.
func freeze(s *state, e trace.Event) []string {
	op := s.disrupts(e)
	if op == nil {
		return nil
	}
	for _, name := range []string{freezeSwitch, freezeOf(op.Group)} {
		if since, known := s.knownSince(name); known {
			return wrong("%s takes %s away, and %s is set since %s", op.ID, op.Slot, name, since)
		}
	}
	return nil
}

// halts reports that failed still counts against its rollout.
func (s *state) halts(failed *operation.Operation) bool {
	sp := s.spec(failed.Group)
	if sp == nil || !inScope(sp, failed.Slot) || s.mayBeExcluded(failed.Slot) {
		return false
	}
	end, ended := s.failedAt[failed.ID]
	m := s.member(failed.Slot)
	return ended && failed.Phase == operation.Failed && failed.Failure.Cause != operation.CauseRefused && end > s.lastDecided(failed.Group) && !s.forgiven(failed) && !m.serves() && end > m.servedAt
}

// forgiven reports that an operator decided about a later step of the same rollout, which had failed. The decision
// covers the steps before that one, even a step that was still open.
func (s *state) forgiven(failed *operation.Operation) bool {
	decided := s.lastDecided(failed.Group)
	for id, other := range s.operations {
		end, ended := s.failedAt[id]
		if ended && end < decided && other.Rollout == failed.Rollout && s.recordedAt[id] > s.recordedAt[failed.ID] {
			return true
		}
	}
	return false
}

// lastDecided is the event of an operator's last decision about the group; -1: there was none.
func (s *state) lastDecided(name string) int {
	if at, did := s.decidedAt[name]; did {
		return at
	}
	return -1
}

// recordedAfter reports that op was recorded after failed ended.
func (s *state) recordedAfter(op, failed *operation.Operation) bool {
	at, known := s.recordedAt[op.ID]
	return !known || at > s.failedAt[failed.ID]
}

// askedSince reports that an operator decided by a request, after failed had ended. The request
// moves the failed Slot itself. Or it is the same step as op, which the platform refused and which
// is retried.
func (s *state) askedSince(op, failed *operation.Operation) bool {
	for _, asked := range s.operations {
		again := asked.Slot == op.Slot && asked.To == op.To && asked.Failure.Cause == operation.CauseRefused
		if asked.Request.ID != "" && (asked.Slot == failed.Slot || again) && s.recordedAfter(asked, failed) && s.recordedAfter(op, asked) {
			return true
		}
	}
	return false
}

// onePath is I7: within one rollout a Slot comes to a Revision at most once. A change of the
// Revision of a Slot's admitted Boots belongs to the rollout of its open Operation. An operator's
// decision starts the count again, as it may lead the same way again.
func onePath(t trace.Trace) []Violation {
	type way struct{ group, rollout, slot, revision string }
	var f findings
	came := map[way]bool{}
	walk(t, func(s *state, i int, e trace.Event) {
		if name, is := s.decides(e); is {
			maps.DeleteFunc(came, func(w way, _ bool) bool { return w.group == name })
		}
		// The Slot is made again: an extra member, or a member of a group whose deletion was
		// withdrawn.
		if e.Slot != "" && strings.HasPrefix(e.Key, "slots/") && (e.Deleted || e.Bound != nil && e.Bound.VMUUID == "") {
			maps.DeleteFunc(came, func(w way, _ bool) bool { return w.slot == e.Slot })
		}
		a := e.Admission
		if e.Kind != trace.Committed || e.Deleted || a == nil {
			return
		}
		m := s.member(a.Slot)
		ran := m.ran
		if len(m.open) == 0 || m.open[0].Rollout == "" || ran == "" || ran == a.Revision {
			return
		}
		w := way{a.Group, m.open[0].Rollout, a.Slot, a.Revision}
		if came[w] {
			f.add(i, "%s comes to %s for the second time in rollout %s", w.slot, w.revision, w.rollout)
		}
		came[w] = true
	})
	return f
}
