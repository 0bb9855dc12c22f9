package client

import (
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// RolloutError reports that an awaited rollout failed.
type RolloutError struct {
	Group string
	State operation.RolloutState
	// Reason in the coordinator's words.
	Reason string
}

func (e *RolloutError) Error() string {
	text := fmt.Sprintf("rollout of %s is %s", e.Group, e.State)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Outcome evaluates a view for a waiter (R144). It is done when the leader has seen the spec at
// index and every Slot in scope proved the target and is available. The error is a *RolloutError
// when the rollout failed, paused, was rolled back or was replaced. A group with OPPORTUNISTIC updates is also done
// once its Slots are available and wait only for an operator's update.
//
// Outcome waits for the removal of Slots that the spec does not want. It does not wait for a Slot
// that stays until an operator decides about its disk, or clears a protection or a drain without an
// end. A group with `stopped = true` is done once no CVM of it runs. index 0 and revision "" mean
// the current ones.
func Outcome(v View, index uint64, revision string) (done bool, err error) {
	s := v.Status
	if s.ObservedIndex < index || s.ObservedIndex == 0 {
		return false, nil
	}
	state := operation.RolloutState(s.RolloutState)
	if revision != "" && s.Target != "" && s.Target != revision && s.ObservedIndex > index {
		return false, &RolloutError{Group: s.Group, State: operation.SupersededState, Reason: "a newer spec asks for revision " + s.Target}
	}
	for _, c := range s.Conditions {
		if c.Type == "SpecValid" && !c.Status {
			return false, &RolloutError{Group: s.Group, State: operation.FailedState, Reason: c.Message}
		}
	}
	if down, all := stopped(v); down {
		return all, nil
	}
	reason := reasonOf(v)
	switch state {
	case operation.RollingBack:
		return false, nil // the error comes at its end
	case operation.FailedState, operation.RolledBack:
		return false, &RolloutError{Group: s.Group, State: state, Reason: reason}
	case operation.PausedState:
		return false, &RolloutError{Group: s.Group, State: state, Reason: reason}
	case operation.PartitionReached:
		return !leaving(v.Plan), nil
	case operation.Running:
		return s.Available >= s.Replicas && len(UpdatesDue(v.Plan)) > 0, nil
	case operation.SupersededState, operation.BakingState:
		return false, nil
	case operation.Complete:
	}
	if s.Paused {
		return false, &RolloutError{Group: s.Group, State: operation.PausedState, Reason: reason}
	}
	return s.Updated >= s.Replicas && s.Available >= s.Replicas && (revision == "" || s.Target == revision) && !leaving(v.Plan), nil
}

// Settled reports whether the rollout of the spec at index is over: none of its steps will begin
// automatically. Slots may be unavailable at this moment.
func Settled(v View, index uint64) bool {
	if v.Status.ObservedIndex < index || v.Status.ObservedIndex == 0 {
		return false
	}
	if down, all := stopped(v); down {
		return all
	}
	switch operation.RolloutState(v.Status.RolloutState) {
	case operation.Complete, operation.PartitionReached:
		return !leaving(v.Plan)
	case operation.Running:
		return len(UpdatesDue(v.Plan)) > 0
	case operation.PausedState, operation.FailedState, operation.SupersededState, operation.RollingBack, operation.RolledBack, operation.BakingState:
	}
	return false
}

// stopped reports whether the group is to be stopped, and whether each CVM of it is.
func stopped(v View) (down, all bool) {
	down = slices.ContainsFunc(v.Status.Conditions, func(c group.Condition) bool {
		return c.Type == rollout.ConditionAvailable && c.Reason == rollout.ReasonGroupStopped
	})
	runs := slices.ContainsFunc(v.Status.Instances, func(i group.InstanceStatus) bool {
		return i.State != group.SlotStopped && i.PlatformStatus != ""
	})
	return down, !runs
}

// UpdatesDue are the Slots of an OPPORTUNISTIC group that wait only for an operator's update. It is empty where a further
// step begins automatically, or a leaving Slot does not wait for an operator.
func UpdatesDue(p rollout.Plan) (slots []string) {
	if len(p.Forget) > 0 {
		return nil
	}
	for _, a := range p.Actions {
		switch {
		case a.Kind == operation.Delete && staysForPeople(p, a):
		case a.Actor == operation.ActorHealing && !a.Execute && a.Operation == "": // the availability of healed Slots does not matter
		case a.Execute || a.Operation != "" || !heldBy(a, rollout.HoldOpportunistic):
			return nil
		default:
			slots = append(slots, a.Slot)
		}
	}
	return slots
}

// leaving reports whether a Slot is being removed, or will be without an operator's action. The
// group still lists a Slot whose CVM is gone until the leader removes its record.
func leaving(p rollout.Plan) bool {
	return len(p.Forget) > 0 || slices.ContainsFunc(p.Actions, func(a rollout.Action) bool {
		return a.Kind == operation.Delete && !staysForPeople(p, a)
	})
}

// staysForPeople reports whether the Slot that an Action removes, or one removed before it, stays
// until an operator acts: consents to the loss of its disk, clears an override, or wants the Slot
// again.
func staysForPeople(p rollout.Plan, a rollout.Action) bool {
	if a.Execute || a.Operation != "" {
		return false
	}
	if forPeople(a) {
		return true
	}
	return heldBy(a, rollout.HoldScaleInOrder) && slices.ContainsFunc(p.Actions, func(other rollout.Action) bool {
		return other.Kind == operation.Delete && other.Ordinal > a.Ordinal && forPeople(other)
	})
}

// forPeople reports whether only an operator can let the removal of a Slot go on. An override with
// an end is waited for.
func forPeople(a rollout.Action) bool {
	marked := slices.ContainsFunc(a.Holds, func(h rollout.Hold) bool {
		return (h.Predicate == rollout.HoldProtected || h.Predicate == rollout.HoldDrained) && h.Until.IsZero()
	})
	return marked || heldBy(a, rollout.HoldDeleteDisks, rollout.HoldPreservedState, rollout.HoldVoterScaleIn)
}

func heldBy(a rollout.Action, predicates ...string) bool {
	return slices.ContainsFunc(a.Holds, func(h rollout.Hold) bool { return slices.Contains(predicates, h.Predicate) })
}

func reasonOf(v View) string {
	if r := v.Plan.Rollout; r != nil && r.Reason != "" {
		return r.Reason
	}
	return v.Status.Message
}
