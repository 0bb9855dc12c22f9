package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Class is the order of R31; lower goes first.
type Class int

const (
	// ClassMarked: an operator requested the Slot by name.
	ClassMarked Class = 1
	// ClassBroken: unavailable and outdated Slots, most broken first.
	ClassBroken Class = 2
	// ClassAtFailed: healthy Slots at a Revision known to have failed, without the leader.
	ClassAtFailed Class = 3
	// ClassNonVoter: healthy outdated non-voters.
	ClassNonVoter Class = 4
	// ClassFollower: healthy outdated followers.
	ClassFollower Class = 5
	// ClassLeader: the healthy outdated leader, last.
	ClassLeader Class = 6
)

// Hold is the reason why an Action waits, and the event that would end the wait (R138).
type Hold struct {
	// Predicate is a stable name, e.g. "max_unavailable", "quorum", "paused" (R140).
	Predicate string `json:"predicate"`
	Message   string `json:"message"`
	// Until is when the predicate may clear by time alone; zero if time does not clear it.
	Until time.Time `json:"until,omitzero"`
}

// Action is one needed step for one Slot.
type Action struct {
	Slot    string         `json:"slot"`
	Ordinal int            `json:"ordinal"`
	Kind    operation.Kind `json:"kind"`
	// Actor is the party on whose behalf the Action is made.
	Actor   operation.Actor   `json:"actor,omitempty"`
	Request operation.Request `json:"request,omitzero"`
	// Why is the reason for the wanted Revision.
	Why   string `json:"why,omitempty"`
	From  string `json:"from_revision,omitempty"`
	To    string `json:"to_revision,omitempty"`
	Class Class  `json:"class,omitempty"`
	// Takes is the step's cost for the member (R146); empty for creations and removals.
	Takes group.UpdateAction `json:"takes,omitempty"`
	// Execute: the Action may run now. Otherwise Holds has at least one entry.
	Execute bool   `json:"execute"`
	Holds   []Hold `json:"holds,omitempty"`
	// Overridden are holds that would hold the Action as well, and that operators override.
	Overridden []operation.Overridden `json:"overridden,omitempty"`
	// Operation is set if an Operation already carries out the Action.
	Operation string          `json:"operation,omitempty"`
	Phase     operation.Phase `json:"phase,omitempty"`
	// Transfer is the planned hand-over (R53).
	Transfer *operation.Transfer `json:"transfer,omitempty"`
	// CVM is the CVM that may be touched, at the time of the decision (R63); empty for Create.
	CVM    operation.CVM    `json:"cvm,omitzero"`
	Way    operation.Way    `json:"way,omitzero"`
	Before operation.Before `json:"before,omitzero"`
	Set    operation.Set    `json:"set,omitzero"`
	// Extra: the Slot exists for the time of a rollout (max_surge).
	Extra bool `json:"extra,omitempty"`
	// DrainWithin is how long the step may take until it acts.
	DrainWithin time.Duration `json:"-"`
	// Attempt counts the Operations of this Slot towards To in this rollout, from 1.
	Attempt int `json:"attempt,omitempty"`
	// Ticket names the step for gates per Slot; empty: no such gate holds it.
	Ticket string `json:"ticket,omitempty"`
	// Retarget is the open Operation that this Action gives another desired state (R105); nil: the Action gets an
	// Operation of its own.
	Retarget *operation.Operation `json:"-"`
}

// HeldBy reports that the predicate holds the Action.
func (a Action) HeldBy(predicate string) bool {
	return slices.ContainsFunc(a.Holds, func(h Hold) bool { return h.Predicate == predicate })
}

// firstMessage is the first reason. The other reasons follow from it, or appear at the next evaluation.
func firstMessage(holds []Hold) string {
	for _, h := range holds {
		return h.Predicate + ": " + h.Message
	}
	return ""
}

// Move is the change of an update from one Revision to another (R146).
type Move struct {
	From    string         `json:"from_revision,omitempty"`
	To      string         `json:"to_revision"`
	Changes []group.Change `json:"changes"`
}

// Plan is the whole decision of one pass.
type Plan struct {
	Group string `json:"group"`
	// Target is the spec's Revision; Stable is the recorded one.
	Target     string `json:"target_revision"`
	Stable     string `json:"stable_revision,omitempty"`
	Generation uint64 `json:"generation"`
	// Actions are in the order in which they begin.
	Actions []Action `json:"actions"`
	// Moves are the updates among Actions, with their changes.
	Moves []Move `json:"moves,omitempty"`
	// Rollout is the rollout record to write now; nil when no record is due.
	Rollout *operation.Rollout `json:"rollout,omitempty"`
	// Superseded is the record of the previous rollout, to write as well, when a newer spec replaced it while it was
	// open (R105).
	Superseded *operation.Rollout `json:"superseded,omitempty"`
	// Slots are the Slot records to write now.
	Slots []group.SlotRecord `json:"slots"`
	// Forget names Slots that were scaled in and whose CVM is gone: their records can be removed.
	Forget []string `json:"forget,omitempty"`
	// Answered are requests that need no more work: they can be removed.
	Answered []string `json:"answered,omitempty"`
	// Gone: the deletion of the group is complete.
	Gone bool `json:"gone,omitempty"`
	// Status is the group's status to write now.
	Status group.Status `json:"status"`
	// Warnings, e.g. will_interrupt (R18).
	Warnings []string `json:"warnings,omitempty"`
	// Message explains an idle pass in one line (R138).
	Message string `json:"message"`
	// Wake is when to plan again without any change; zero: only after a change.
	Wake time.Time `json:"wake,omitzero"`
	// Clock is Wake for a caller that is notified when an agent stops reporting. Clock excludes the moments at which
	// reports become stale.
	Clock time.Time `json:"-"`
}

// Timing holds the engine's fixed times; tests shorten them.
type Timing struct {
	// StaleAfter: older reports are Unknown (R11). Default 15 s: agents report at least
	// every 5 s.
	StaleAfter time.Duration
	// MaxCallTimeout bounds one platform call; a new leader waits it out (R62). Default 10 s.
	MaxCallTimeout time.Duration
	// Settle is how long after a call its effect may still show, as the driver states it. Default MaxCallTimeout.
	Settle time.Duration
	// StopFirst: the platform changes a stopped CVM only, and starts none.
	StopFirst bool
	// UnknownDeadline pauses an Operation whose call stays undecided (R66). Default 10 min.
	UnknownDeadline time.Duration
	// LostAfter is when a Slot without reports counts as broken instead of unknown (R10, R31). Default 5 min.
	LostAfter time.Duration
}

// OrDefault returns t with the default for each missing field.
func (t Timing) OrDefault() Timing {
	d := DefaultTiming()
	fill := func(field *time.Duration, value time.Duration) {
		if *field <= 0 {
			*field = value
		}
	}
	fill(&t.StaleAfter, d.StaleAfter)
	fill(&t.MaxCallTimeout, d.MaxCallTimeout)
	fill(&t.Settle, t.MaxCallTimeout)
	fill(&t.UnknownDeadline, d.UnknownDeadline)
	fill(&t.LostAfter, d.LostAfter)
	return t
}

// DefaultTiming is the Timing in production.
func DefaultTiming() Timing {
	return Timing{StaleAfter: 15 * time.Second, MaxCallTimeout: 10 * time.Second, UnknownDeadline: 10 * time.Minute, LostAfter: 5 * time.Minute}
}

// HoldsBySlot are the holds of the Slots' next steps (R138), as a Slot's status reports them.
func (p *Plan) HoldsBySlot() map[string][]group.Hold {
	out := map[string][]group.Hold{}
	for _, a := range p.Actions {
		if a.Execute {
			continue
		}
		for _, h := range a.Holds {
			out[a.Slot] = append(out[a.Slot], group.Hold{Predicate: h.Predicate, Message: h.Message})
		}
	}
	return out
}
