package operation

import (
	"maps"
	"time"
)

// Phase is the progress of an Operation.
type Phase string

const (
	// Draining: the agent runs PRE_TERMINATE hooks and hands leadership over. A step with a member to drain begins here.
	Draining Phase = "DRAINING"
	// Drained: the agent finished; the quorum is checked once more before acting (R50). A step with nothing to drain
	// begins here.
	Drained Phase = "DRAINED"
	// Acting: the platform call may have been made. A read-back precedes any repetition (R66).
	Acting Phase = "ACTING"
	// Booting: the platform accepted the call; the CVM is stopping, updating or starting.
	Booting Phase = "BOOTING"
	// Joining: a Boot at the wanted Revision was admitted. The step waits for POST_LAUNCH hooks, health and catch-up.
	Joining Phase = "JOINING"
	// Settling: available except for min_ready (R8).
	Settling Phase = "SETTLING"
	// Done: finished.
	Done Phase = "DONE"
	// Aborted: called off before acting; the Slot returned to service (R82).
	Aborted Phase = "ABORTED"
	// Failed: overdue or certainly failed. A failed Slot blocks further healthy Slots until it is available (R40).
	Failed Phase = "FAILED"
)

// Ended reports whether p is final.
func (p Phase) Ended() bool {
	switch p {
	case Done, Aborted, Failed:
		return true
	case Draining, Drained, Acting, Booting, Joining, Settling, "":
		return false
	}
	return false
}

// Kind of Action that is carried out.
type Kind string

const (
	// Create makes the CVM of a Slot that has none.
	Create Kind = "CREATE"
	// Update moves a Slot to another Revision in place (R131).
	Update Kind = "UPDATE"
	// Restart restarts the CVM at its Revision, or one service in it (Way.Service).
	Restart Kind = "RESTART"
	// Delete removes the CVM of a terminating Slot.
	Delete Kind = "DELETE"
	// Replace gives a Slot another CVM with an empty disk: the old CVM is gone, or is deleted first (R128). The data on
	// its disk is lost.
	Replace Kind = "REPLACE"
	// Drain takes a Slot out of service on an operator's request and makes no platform call. It stays DRAINED until the
	// request is withdrawn.
	Drain Kind = "DRAIN"
	// Stop drains the Slot, stops its CVM, and keeps the CVM stopped while its group is to be stopped. Then the same step
	// starts the CVM again.
	Stop Kind = "STOP"
)

// InPlace reports whether the Slot keeps its CVM and disk.
func (k Kind) InPlace() bool { return k == Update || k == Restart || k == Stop }

// another reports whether the step makes, removes or replaces the Slot's CVM.
func (k Kind) another() bool { return k == Create || k == Delete || k == Replace }

// Actor is the party on whose behalf an Operation is made. Each Actor has its own clock: only the rollout's Operations
// count for and against the rollout.
type Actor string

const (
	// ActorRollout moves Slots to the spec's target. The zero value reads as this.
	ActorRollout Actor = "rollout"
	// ActorOperator: an operator requested the Operation; Operation.Request names the request.
	ActorOperator Actor = "operator"
	// ActorHealing repairs faults automatically.
	ActorHealing Actor = "healing"
	// ActorScaling makes and removes Slots.
	ActorScaling Actor = "scaling"
)

// Rolls reports that a step of this Kind, made for by, brings a Slot to another Revision: each update, and a
// replacement that a rollout makes. Other replacements give a Slot another CVM for its own sake.
func (k Kind) Rolls(by Actor) bool { return k == Update || k == Replace && by == ActorRollout }

// PhaseTimes is when each Phase was entered.
type PhaseTimes map[Phase]time.Time

// with returns a copy of t with at as the time of p. All readers of a record share its map.
func (t PhaseTimes) with(p Phase, at time.Time) PhaseTimes {
	next := make(PhaseTimes, len(t)+1)
	maps.Copy(next, t)
	next[p] = at
	return next
}

// Operation is the record at operations/<id>.
type Operation struct {
	ID    string `json:"id"`
	Group string `json:"group"`
	Slot  string `json:"slot"`
	// Rollout is the rollout of the step; "": the step belongs to no rollout. Order is its number in the rollout, from
	// 1.
	Rollout string `json:"rollout,omitempty"`
	Order   int    `json:"order,omitempty"`
	Kind    Kind   `json:"kind"`
	// Actor is the party on whose behalf the Operation is made.
	Actor   Actor   `json:"actor,omitempty"`
	Request Request `json:"request,omitzero"`
	CVM     CVM     `json:"cvm,omitzero"`
	From    string  `json:"from_revision,omitempty"`
	To      string  `json:"to_revision,omitempty"`
	// Attempt counts the drains that the Operation ordered, from its first number.
	Attempt int   `json:"attempt"`
	Phase   Phase `json:"phase"`
	// Reason of the present phase, for people. No code reads it.
	Reason string `json:"reason,omitempty"`
	// Term of the leader that last wrote the record (R61).
	Term   uint64 `json:"term"`
	Way    Way    `json:"way,omitzero"`
	Before Before `json:"before,omitzero"`
	Set    Set    `json:"set,omitzero"`
	// Ticket names the step for the group's gates per Slot; empty: the group has none for such a step.
	Ticket string `json:"ticket,omitempty"`
	// Overridden are the holds that operators' overrides passed when the step began (R141); empty: none.
	Overridden []Overridden `json:"overridden,omitempty"`
	// Transfer is the planned hand-over, if the Slot leads.
	Transfer *Transfer  `json:"transfer,omitempty"`
	Call     Call       `json:"call,omitzero"`
	Seen     Seen       `json:"seen,omitzero"`
	Outage   Outage     `json:"outage,omitzero"`
	Failure  Failure    `json:"failure,omitzero"`
	Entered  PhaseTimes `json:"entered"`
	Times    Times      `json:"times,omitzero"`
}

// Retarget gives the open Operation op the desired state of next (R105). The numbers of calls and drains go on, so no
// late answer counts for the next call or drain. An open outage goes on too, and op still answers its request.
func (op Operation) Retarget(next Operation) Operation {
	next.ID, next.Times.Created = op.ID, op.Times.Created
	next.Attempt = max(next.Attempt, op.Attempt+1)
	next.Call.Number = op.Call.Number
	next.Reason = "the spec changed: " + next.Reason
	if op.Outage.Until.IsZero() {
		next.Outage = op.Outage
	}
	if next.Request.ID == "" {
		next.Request = op.Request
	}
	return next
}

// Clocks are the times in op that were read from the leader's clock when an event was seen or an action was done.
// Deadlines, the end of op, and the platform's own times are not among them.
func (op *Operation) Clocks() []*time.Time {
	return []*time.Time{&op.Times.Created, &op.Seen.GoneSince, &op.Call.IssuedAt, &op.Seen.AvailableSince, &op.Outage.From, &op.Outage.Until, &op.Seen.RunningSince, &op.Before.PendingBoot.At}
}

// OutlivesRollout reports that op, once ended, still matters to its Slot under a later rollout. Such Operations began
// with a CVM that was moved, failed half done, healed, drained, or deleted the CVM.
func (op Operation) OutlivesRollout() bool {
	return op.EndedHalfDone() || op.Before.PendingBoot.To != "" || op.Actor == ActorHealing || op.Kind == Drain || op.Kind == Stop || op.Kind == Delete
}

// EndedHalfDone reports that op failed with a part of its change applied.
func (op Operation) EndedHalfDone() bool {
	return op.Kind == Update && op.Phase == Failed && op.Call.changes()
}

// Counts reports that op matters to a decision while rollout is its group's current rollout; "" means that the group
// has none.
func (op Operation) Counts(rollout string) bool {
	return !op.Phase.Ended() || op.OutlivesRollout() || rollout != "" && op.Rollout == rollout
}

// Transfer is a planned hand-over of leadership (R53).
type Transfer struct {
	// ExpectedLeader is the Slot that must lead for the transfer to be made (R54).
	ExpectedLeader string `json:"expected_leader"`
	// Candidates, best first (R53, R56).
	Candidates []string `json:"candidates"`
	// Relief: the leader is unhealthy, and moving leadership away is part of its repair. A relief does not count as the
	// rollout's one planned transfer.
	Relief bool `json:"relief,omitempty"`
	// Interim: the Candidates are to be removed or replaced, and no other member can lead meanwhile. An interim hand-over is not the
	// rollout's one hand-over (R53), because the new leader hands leadership over again.
	Interim bool `json:"interim,omitempty"`
	// Made and To are the outcome.
	Made bool   `json:"made,omitempty"`
	To   string `json:"to,omitempty"`
}

// withoutHooks: a hook aborted the drain, and the member is healed anyway.
func (op Operation) withoutHooks() bool {
	return op.Kind == Restart && op.Actor == ActorHealing && op.Failure.Cause == CauseHook
}

// Decided reports that the call's effect is settled, so that a newer spec may change To (R105).
func (op Operation) Decided() bool {
	switch op.Phase {
	case Booting, Joining, Settling:
		return true
	case Draining, Drained, Acting, Done, Aborted, Failed, "":
	}
	return false
}
