package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// UpdateOptions are the options of UpdateInstance. The functions may be nil; all are called from
// one goroutine.
type UpdateOptions struct {
	// Revision to reach; empty: the group's target.
	Revision string
	// Pinned is the Revision that the spec pins the Slot to; the Slot moves there instead.
	Pinned string
	// Own gives the Slot its own env values and size, without a move to another Revision. If the step
	// to another Revision is held until it is requested, or if none is planned, they follow later, and
	// the Slot's status reports that.
	Own bool
	// Reason is recorded with the Operation.
	Reason string
	// ByHand: an operator names the Slot. The update also runs while the group is paused, and when
	// the step exceeds most_disruptive_allowed_action. Otherwise these are reported like any hold.
	ByHand bool
	// Index of the spec that the coordinators must have seen first, 0: any.
	Index uint64
	// See receives each view, Lost each try that no coordinator answered.
	See  func(View)
	Lost func(error)
}

// UpdateInstance brings one Slot to the Revision that its group asks for, and to its own env
// values and size. It returns the Slot's status once the Slot is available there. If the step waits only for
// an operator, as with OPPORTUNISTIC updates, UpdateInstance requests that Slot's update
// (rollout.PassedByName). Otherwise the rollout moves the Slot, and UpdateInstance only waits.
//
// An update with a hold that time does not clear, such as the quorum, is rejected at once with
// every hold: Kind Conflict around a *HeldError. While another step is in progress, UpdateInstance
// waits for that first. Kind NotFound: the Slot does not exist; Kind Invalid: the group asks for
// another Revision.
func (c *Client) UpdateInstance(ctx context.Context, slot string, o UpdateOptions) (group.InstanceStatus, error) {
	name, _, err := group.ParseSlot(slot)
	if err != nil {
		return group.InstanceStatus{}, &Error{Kind: Invalid, Doing: "update instance " + slot, Message: err.Error()}
	}
	u := &update{slot: slot, revision: o.Revision, pinned: o.Pinned, byHand: o.ByHand, index: o.Index, own: o.Own}
	asked := ""
	err = Poll(ctx, func(ctx context.Context) (bool, error) {
		v, err := c.look(ctx, name, o.Lost)
		if err != nil {
			return false, err
		}
		call(o.See, v)
		next, err := u.next(v, asked != "")
		switch {
		case err != nil:
			return false, err
		case next == updateAsk:
			asked, err = c.requestUpdate(ctx, slot, o.Reason)
			return false, err
		case next == updateWait && asked != "":
			return false, c.requestFailed(ctx, asked)
		}
		return next == updateDone, nil
	}, o.Lost)
	return u.status, err
}

// requestFailed returns a *OperationError when the Operation of a request failed.
func (c *Client) requestFailed(ctx context.Context, id string) error {
	o, err := c.Operation(ctx, id)
	switch {
	case KindOf(err) == NotFound:
		return nil // the leader needed no Operation for the request
	case err != nil:
		return err
	case o.Operation != nil && o.Operation.Phase.Ended() && o.Operation.Phase != operation.Done:
		return &OperationError{Operation: *o.Operation}
	}
	return nil
}

// update decides the next step for one Slot from the views. The zero value with slot set is ready.
type update struct {
	slot, revision, pinned string
	byHand                 bool
	index                  uint64
	own                    bool
	status                 group.InstanceStatus
}

// updateStep is the next step of an update.
type updateStep int

const (
	updateWait updateStep = iota
	updateAsk
	updateDone
)

func (u *update) next(v View, asked bool) (updateStep, error) {
	if v.Status.ObservedIndex < u.index {
		return updateWait, nil // the leader has not seen the spec yet
	}
	doing := "update instance " + u.slot
	at := slices.IndexFunc(v.Status.Instances, func(i group.InstanceStatus) bool { return i.Slot == u.slot })
	if at < 0 {
		return updateWait, &Error{Kind: NotFound, Doing: doing, Message: "no such slot: group " + v.Status.Group + " has " + orNone(slots(v.Status))}
	}
	u.status = v.Status.Instances[at]
	target := v.Status.Target
	if u.pinned != "" {
		target = u.pinned
	}
	if u.revision != "" && u.revision != target {
		return updateWait, &Error{Kind: Invalid, Doing: doing, Message: fmt.Sprintf("the group asks for revision %s, not %s", target, u.revision),
			Hint: "a slot can only move to the revision of its group's spec: apply the group first"}
	}
	action := planned(v.Plan, u.slot)
	there := u.there(target, action)
	if there && u.status.State == StateAvailable {
		return updateDone, nil
	}
	switch {
	case asked || action != nil && (action.Operation != "" || action.Execute):
		return updateWait, nil
	case action == nil && there && u.byHand && u.status.State == group.SlotFailed:
		return updateWait, &Error{Kind: Conflict, Doing: doing, Message: "it runs the revision already, and its step failed there: " + orNone(u.status.Reason),
			Hint: "`cadre instance restart " + u.slot + "` starts it again at this revision"}
	case action == nil && there:
		return updateWait, nil // the slot comes back
	case action == nil && u.byHand && u.status.State == group.SlotFailed:
		return updateAsk, nil // a failed step is not repeated automatically
	case action == nil:
		return updateWait, &Error{Kind: Conflict, Doing: doing, Message: "no step is planned for it: " + orNone(v.Plan.Message),
			Hint: "update_policy.partition keeps lower ordinals at their revision, and exclude_from_rollout or pinned_revision of an instance, or `cadre instance exclude`, that slot"}
	}
	others := slices.DeleteFunc(slices.Clone(action.Holds), func(h rollout.Hold) bool { return u.passes(action, h) })
	if len(others) == 0 {
		return updateAsk, nil
	}
	if busy(v.Plan) || onlyTime(others) {
		return updateWait, nil
	}
	return updateWait, &Error{Kind: Conflict, Doing: doing, Message: "it is not updated now: " + holdsText(others),
		Hint: "see `cadre rollout plan " + v.Status.Group + "`", cause: &HeldError{Holds: others}}
}

// passes reports whether this request passes a hold of the Slot's step. An operator's request also
// passes the hold of a paused group, the hold of a step that exceeds the allowed action, and the
// hold after the Slot's own update failed.
func (u *update) passes(a *rollout.Action, h rollout.Hold) bool {
	switch h.Predicate {
	case rollout.HoldRolloutFailed:
		return u.byHand && a.Attempt > 1
	case rollout.HoldPaused, rollout.HoldActionNotAllowed, rollout.HoldUpdateUnfinished:
		return u.byHand
	}
	return rollout.PassedByName(h.Predicate)
}

// there reports whether the Slot is at the target with its own settings. Without ByHand they
// may come later: when no step delivers them, or when only a step that waits for a request
// would.
func (u *update) there(target string, step *rollout.Action) bool {
	switch {
	case len(u.status.Unapplied()) == 0:
	case step == nil && u.byHand, step != nil && !u.later(*step):
		return false
	}
	return u.own || u.status.Observed == target
}

// later reports whether the step waits for a request and would move a Slot that only needs its own settings.
func (u *update) later(step rollout.Action) bool {
	return u.own && step.Way.Mode != operation.ModeOwn && slices.ContainsFunc(step.Holds, opportunistic)
}

func opportunistic(h rollout.Hold) bool { return h.Predicate == rollout.HoldOpportunistic }

// HeldError has the holds of a step that cannot run now.
type HeldError struct{ Holds []rollout.Hold }

func (e *HeldError) Error() string { return holdsText(e.Holds) }

// By reports whether a hold of that predicate is among them.
func (e *HeldError) By(predicate string) bool {
	return slices.ContainsFunc(e.Holds, func(h rollout.Hold) bool { return h.Predicate == predicate })
}

// StateAvailable is the state of a Slot that counts as available. StateDrained is the state of a
// Slot that an operator took out of service.
const (
	StateAvailable = group.SlotAvailable
	StateDrained   = group.SlotDrained
)

func planned(p rollout.Plan, slot string) *rollout.Action {
	for i := range p.Actions {
		if p.Actions[i].Slot == slot {
			return &p.Actions[i]
		}
	}
	return nil
}

// busy reports whether a step is in progress or will begin automatically, and so may clear a hold
// of another.
func busy(p rollout.Plan) bool {
	return slices.ContainsFunc(p.Actions, func(a rollout.Action) bool { return a.Operation != "" || a.Execute })
}

// onlyTime reports whether time alone clears each hold.
func onlyTime(holds []rollout.Hold) bool {
	return !slices.ContainsFunc(holds, func(h rollout.Hold) bool { return h.Until.IsZero() })
}

func holdsText(holds []rollout.Hold) string {
	texts := make([]string, len(holds))
	for i, h := range holds {
		texts[i] = h.Predicate + ": " + h.Message
	}
	return strings.Join(texts, "; ")
}

func slots(s group.Status) string {
	names := make([]string, len(s.Instances))
	for i, one := range s.Instances {
		names[i] = one.Slot
	}
	return strings.Join(names, ", ")
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
