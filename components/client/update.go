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

// UpdateOptions say how one Slot is updated. The functions may be nil; all are called from
// one goroutine.
type UpdateOptions struct {
	// Revision that is meant; empty: the one that the group asks for, whatever it is.
	Revision string
	// Pinned is the Revision that the spec pins the Slot to; it is brought there instead.
	Pinned string
	// OwnEnv: the Slot is given the values of env of its own, and is moved to no other Revision
	// for it. Where a step to another one is held until it is asked for, or where none is
	// planned, it gets them later, and its status says so.
	OwnEnv bool
	// Reason stands in the record of the Operation.
	Reason string
	// ByHand: a person names the Slot, and means it also while the group is paused, or where the
	// step takes more than most_disruptive_allowed_action. Otherwise these are told like any hold.
	ByHand bool
	// Index of the spec that is to be seen before anything is judged, 0: any.
	Index uint64
	// See gets each view, Lost each try that no coordinator answered.
	See  func(View)
	Lost func(error)
}

// UpdateInstance brings one Slot to the Revision that its group asks for, and to the values of
// env of its own, and returns its status once it is available there. Where nothing but a person
// is waited for, as while updates are OPPORTUNISTIC, it asks for
// that Slot's update (rollout.PassedByName); elsewhere the rollout does it, and it only waits.
//
// An update that something else than time holds, such as the quorum, is refused at once
// with every hold, Kind Conflict around a *HeldError; while another step is under way, it waits for that first.
// Kind NotFound: there is no such Slot; Kind Invalid: the group asks for another Revision.
func (c *Client) UpdateInstance(ctx context.Context, slot string, o UpdateOptions) (group.InstanceStatus, error) {
	name, _, err := group.ParseSlot(slot)
	if err != nil {
		return group.InstanceStatus{}, &Error{Kind: Invalid, Doing: "update instance " + slot, Message: err.Error()}
	}
	u := &update{slot: slot, revision: o.Revision, pinned: o.Pinned, byHand: o.ByHand, index: o.Index, ownEnv: o.OwnEnv}
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

// requestFailed is a *OperationError when the Operation of a request did not get there.
func (c *Client) requestFailed(ctx context.Context, id string) error {
	o, err := c.Operation(ctx, id)
	switch {
	case KindOf(err) == NotFound:
		return nil // answered without an Operation: there was nothing to do
	case err != nil:
		return err
	case o.Operation != nil && o.Operation.Phase.Ended() && o.Operation.Phase != operation.Done:
		return &OperationError{Operation: *o.Operation}
	}
	return nil
}

// update decides what is next for one Slot from what is seen. The zero value with slot set
// is ready.
type update struct {
	slot, revision, pinned string
	byHand                 bool
	index                  uint64
	ownEnv                 bool
	status                 group.InstanceStatus
}

// updateStep is what an update does next.
type updateStep int

const (
	updateWait updateStep = iota
	updateAsk
	updateDone
)

func (u *update) next(v View, asked bool) (updateStep, error) {
	if v.Status.ObservedIndex < u.index {
		return updateWait, nil // the leader has not seen the spec that asks for it
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
			Hint: "a slot can only be brought to what its group asks for: apply the group first"}
	}
	action := planned(v.Plan, u.slot)
	there := u.there(target, action)
	if there && u.status.State == StateAvailable {
		return updateDone, nil
	}
	switch {
	case asked || action != nil && (action.Operation != "" || action.Execute):
		return updateWait, nil
	case action == nil && there:
		return updateWait, nil // it comes back
	case action == nil && u.byHand && u.status.State == group.SlotFailed:
		return updateAsk, nil // what failed is not made again by itself
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

// passes reports that a hold of the Slot's step is none for this request. A person may mean it also while the group
// is paused, or where the step takes more than is allowed, and after the Slot's own update has failed.
func (u *update) passes(a *rollout.Action, h rollout.Hold) bool {
	switch h.Predicate {
	case rollout.HoldRolloutFailed:
		return u.byHand && a.Attempt > 1
	case rollout.HoldPaused, rollout.HoldActionNotAllowed, rollout.HoldUpdateUnfinished:
		return u.byHand
	}
	return rollout.PassedByName(h.Predicate)
}

// there reports that the Slot is where it is to be, with the values of env that it is to have. Who does
// not ask by hand may have to wait for those: where no step gives any, or, where nothing else is
// asked for, one that waits to be asked for.
func (u *update) there(target string, step *rollout.Action) bool {
	switch {
	case u.status.OwnEnv != group.OwnEnvUnapplied:
	case step == nil && u.byHand, step != nil && !u.later(*step):
		return false
	}
	return u.ownEnv || u.status.Observed == target
}

// later: the step would move a Slot that is to be given its env and nothing else, and waits to
// be asked for.
func (u *update) later(step rollout.Action) bool {
	return u.ownEnv && step.Way.Mode != operation.ModeEnv && slices.ContainsFunc(step.Holds, opportunistic)
}

func opportunistic(h rollout.Hold) bool { return h.Predicate == rollout.HoldOpportunistic }

// HeldError is why a step is not carried out now.
type HeldError struct{ Holds []rollout.Hold }

func (e *HeldError) Error() string { return holdsText(e.Holds) }

// By reports whether a hold of that predicate is among them.
func (e *HeldError) By(predicate string) bool {
	return slices.ContainsFunc(e.Holds, func(h rollout.Hold) bool { return h.Predicate == predicate })
}

// StateAvailable is the state of a Slot that counts, StateDrained of one that an operator took
// out of service.
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

// busy: something is under way or begins by itself, and may lift what holds others.
func busy(p rollout.Plan) bool {
	return slices.ContainsFunc(p.Actions, func(a rollout.Action) bool { return a.Operation != "" || a.Execute })
}

// onlyTime: each hold clears by itself.
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
