package rollout

import "cadre.dev/core/operation"

// removalOf is the candidate for a Slot that is no longer wanted.
func removalOf(m *member) candidate {
	return candidate{m: m, kind: operation.Delete, actor: operation.ActorScaling, condition: m.condition}
}

// triedAtTarget: the CVM was already moved to its wanted Revision and never became available there. The same call is
// not repeated (R39), unless an operator asks for another attempt (R103). A refused call was not applied.
func (w *world) triedAtTarget(m *member, marked bool) bool {
	if marked || m.open != nil {
		return false
	}
	last := m.last()
	return last != nil && last.Phase == operation.Failed && last.Failure.Cause != operation.CauseRefused &&
		last.To == m.want.revision && last.Kind != operation.Restart && w.sameOwn(m, *last)
}

// candidate is a member with the Action it needs.
type candidate struct {
	m    *member
	kind operation.Kind
	to   string
	// actor is the party on whose behalf the Action is made.
	actor operation.Actor
	// class is the candidate's place in the order (R31).
	class Class
	// condition is the condition that the candidate is judged by: the member's own, or that at the time of the decision.
	condition condition
	marked    bool
	// refresh: the update stops no Boot, since only the agent's work changes.
	refresh bool
	// forOwn: the update only changes the Slot's own env values or size.
	forOwn bool
	// why is the reason for healing; down: the platform reports the CVM as down.
	why  string
	down bool
	// service is the service of a Restart; "" is the CVM.
	service string
	// left: the step's loss has already happened. The member is out of its workload's set, so that its CVM serves no
	// client. Or the CVM was deleted, and only the new CVM is still to be made.
	left bool
}

// rolls: c is the rollout's step of its member.
func (c candidate) rolls() bool { return c.kind.Rolls(c.actor) }

// again is the candidate of op for the evaluation right before its call. A member that was down at the decision is
// evaluated in its present condition. A member that served then counts as serving, since op's drain took it away.
func (m *member) again(op operation.Operation) candidate {
	c := candidate{m: m, kind: op.Kind, to: op.To, actor: op.Actor, refresh: op.Way.Refreshes(), service: op.Way.Service, condition: well}
	if op.Before.Unavailable {
		c.condition, c.marked = m.condition, op.Request.ID != "" && op.Actor == operation.ActorOperator
	}
	return c
}

// otherThan returns the first of members other than m, or nil.
func otherThan(m *member, members []*member) *member {
	for _, other := range members {
		if other != m {
			return other
		}
	}
	return nil
}

// where returns the members that the question is true for.
func where(members []*member, is func(*member) bool) (out []*member) {
	for _, m := range members {
		if is(m) {
			out = append(out, m)
		}
	}
	return out
}

func slotsOf(members []*member) []string {
	slots := make([]string, len(members))
	for i, m := range members {
		slots[i] = m.slot
	}
	return slots
}
