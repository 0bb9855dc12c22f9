package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"cadre.dev/core/operation"
)

// CurrentRollout is the id of the rollout that an override of a hold belongs to: the group's newest one while it is
// not over, since a failed rollout can go on; "": there is none.
func CurrentRollout(r *operation.Rollout) string {
	if r == nil {
		return ""
	}
	switch r.State {
	case operation.Complete, operation.PartitionReached, operation.SupersededState:
		return ""
	case operation.Running, operation.BakingState, operation.PausedState, operation.RollingBack, operation.FailedState, operation.RolledBack:
	}
	return r.ID
}

// overrideOf returns the override of a hold that is in force, or nil. An override belongs to the rollout in which it
// was given, or to the time without one, and ends with that (R141). One without an end, or of a hold that is not in
// the list, is not in force.
func (w *world) overrideOf(hold string) *Override {
	o := w.obs.HoldOverrides[hold]
	if _, ok := overridable[hold]; !ok || o == nil || o.Until.IsZero() || o.ended(w.now) || o.Rollout != CurrentRollout(cmp.Or(w.rollout, w.rec.Rollout)) {
		return nil
	}
	return o
}

// passed splits the holds of an Action into the holds in force and the holds that an operator overrides.
func (w *world) passed(all []Hold) (holds []Hold, overridden []operation.Overridden) {
	if len(w.obs.HoldOverrides) == 0 {
		return all, nil
	}
	for _, h := range all {
		if o := w.overrideOf(h.Predicate); o != nil {
			overridden = append(overridden, operation.Overridden{Hold: h.Predicate, By: o.By, Reason: o.Reason})
		} else {
			holds = append(holds, h)
		}
	}
	return holds, overridden
}

// holdOverrideTexts describe the overrides in force, for the plan.
func (w *world) holdOverrideTexts() (out []string) {
	for _, hold := range slices.Sorted(maps.Keys(w.obs.HoldOverrides)) {
		if o := w.overrideOf(hold); o != nil {
			out = append(out, fmt.Sprintf("%s is overridden by an operator%s; to end that: cadre rollout override %s %s --clear", hold, o.text(), w.spec.Name, hold))
		}
	}
	return out
}
