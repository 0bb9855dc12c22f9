package operation

import "time"

// Phase is how far an Operation got.
type Phase string

const (
	// Recorded: the intent exists, nothing was done. The zero value reads as this.
	Recorded Phase = "RECORDED"
	// Draining: the agent runs PRE_TERMINATE hooks and hands leadership over.
	Draining Phase = "DRAINING"
	// Drained: the agent finished; quorum is checked once more before acting (R50).
	Drained Phase = "DRAINED"
	// Acting: the platform call may have been made. Never repeated without a read-back (R66).
	Acting Phase = "ACTING"
	// Booting: the platform accepted; the CVM is stopping, updating or starting.
	Booting Phase = "BOOTING"
	// Joining: a Boot at the wanted Revision was admitted; POST_LAUNCH hooks, health and catch-up are awaited.
	Joining Phase = "JOINING"
	// Settling: available except for min_ready (R8).
	Settling Phase = "SETTLING"
	// Done: finished.
	Done Phase = "DONE"
	// Aborted: called off before acting; the Slot returned to service (R82).
	Aborted Phase = "ABORTED"
	// Failed: overdue or certainly failed; blocks further healthy Slots until the Slot is available (R40).
	Failed Phase = "FAILED"
	// Superseded: re-targeted by a newer Operation of the same Slot after acting (R105), or what it made
	// is to be removed.
	Superseded Phase = "SUPERSEDED"
)

// Ended reports whether p is final.
func (p Phase) Ended() bool {
	switch p {
	case Done, Aborted, Failed, Superseded:
		return true
	case Recorded, Draining, Drained, Acting, Booting, Joining, Settling, "":
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
	// Restart restarts the CVM at its Revision, or one service in it (Operation.Service).
	Restart Kind = "RESTART"
	// Delete removes the CVM of a condemned Slot.
	Delete Kind = "DELETE"
	// Replace gives a Slot another CVM with an empty disk: the old one is gone, or goes
	// first (R128). What was on its disk is lost.
	Replace Kind = "REPLACE"
	// Drain takes a Slot out of service on an operator's word and makes no platform call: it
	// stays DRAINED until it is not wanted any more.
	Drain Kind = "DRAIN"
)

// InPlace reports whether the Slot keeps its CVM and disk.
func (k Kind) InPlace() bool { return k == Update || k == Restart }

// Actor is on whose behalf an Operation is made. Each has its own clock: only what the
// rollout does counts for and against the rollout.
type Actor string

const (
	// ActorRollout moves Slots to the spec's target. The zero value reads as this.
	ActorRollout Actor = "rollout"
	// ActorOperator: a person asked for it, Operation.Request names how.
	ActorOperator Actor = "operator"
	// ActorHealing repairs what broke by itself.
	ActorHealing Actor = "healing"
	// ActorScaling makes and removes Slots.
	ActorScaling Actor = "scaling"
)

// PhaseTimes is when each Phase was entered.
type PhaseTimes map[Phase]time.Time

// Operation is the record at operations/<id>.
type Operation struct {
	ID      string `json:"id"`
	Rollout string `json:"rollout,omitempty"`
	Group   string `json:"group"`
	Slot    string `json:"slot"`
	Kind    Kind   `json:"kind"`
	// Actor is on whose behalf; Request is the id of the operator's request that it
	// answers, and Note the reason that came with it.
	Actor   Actor  `json:"actor,omitempty"`
	Request string `json:"request,omitempty"`
	Note    string `json:"note,omitempty"`
	By      string `json:"by,omitempty"`
	// ResolvedBy is the request by which an operator said how a call of it ended.
	ResolvedBy string `json:"resolved_by,omitempty"`
	// InstanceID and VMUUID name the one CVM that may be touched (R63).
	InstanceID string `json:"instance_id,omitempty"`
	VMUUID     string `json:"vm_uuid,omitempty"`
	// Incarnation is the number of the CVM that a Replace makes for the Slot.
	Incarnation uint64 `json:"incarnation,omitempty"`
	From        string `json:"from_revision,omitempty"`
	To          string `json:"to_revision,omitempty"`
	Attempt     int    `json:"attempt"`
	// Order in the rollout, from 1.
	Order int   `json:"order,omitempty"`
	Phase Phase `json:"phase"`
	// Reason of the present phase, for people.
	Reason string `json:"reason,omitempty"`
	// Term of the leader that wrote it last (R61).
	Term uint64 `json:"term"`
	// Transfer is the planned hand-over, if the Slot leads.
	Transfer *Transfer `json:"transfer,omitempty"`
	// QuorumSnapshot is what the decision saw, for the record.
	QuorumSnapshot string `json:"quorum_snapshot,omitempty"`
	// SkipDrain: the member is unavailable, there is nothing to drain.
	SkipDrain bool `json:"skip_drain,omitempty"`
	// WasUnavailable: the Slot was down already when the step was decided, so that the
	// step took nothing more away (R21).
	WasUnavailable bool `json:"was_unavailable,omitempty"`
	// WasStopped: the platform said that the CVM stays down when the step's first call was made. Where it
	// says so still after the last one, an Update starts it.
	WasStopped bool `json:"was_stopped,omitempty"`
	// Refresh: To differs from what runs only in what the agent does beside its workload.
	// Nothing is drained, called for or booted; the Boot attests again, at To.
	Refresh bool `json:"refresh,omitempty"`
	// Service, of a Restart, is the one whose workload ends and starts anew, by its agent's
	// hand: the CVM and its Boot stay, and the platform is not called. "": the CVM restarts.
	Service string `json:"service,omitempty"`
	// Force, of a Restart of a CVM: its guest is not asked, since the last restart, which asked
	// it, brought no boot.
	Force bool `json:"force,omitempty"`
	// Sick: the member was certainly no part of a working quorum when the step was
	// decided, so that stopping it takes nothing away (R45).
	Sick bool `json:"sick,omitempty"`
	// BootBefore is the Boot that held the Slot when the last call was issued, before that
	// the one when the Operation was recorded; a later admission must be another one.
	BootBefore string `json:"boot_before,omitempty"`
	// Down: when it was decided the platform said that no CVM of the Slot ran.
	Down bool `json:"down,omitempty"`
	// Follows is the superseded Operation of the Slot whose call had not shown yet, by another
	// Boot, when this one was recorded.
	Follows string `json:"follows,omitempty"`
	// Joins: the CVM that it makes joins the workload's set, which is there already.
	Joins bool `json:"joins,omitempty"`
	// Leaves: the other members of the workload's set are to take the Slot out of it.
	Leaves bool `json:"leaves,omitempty"`
	// LeavesAs is what the set knew the member by when that was recorded (group.SetChange):
	// whoever comes under the Slot's name after it does not have to go.
	LeavesAs string `json:"leaves_as,omitempty"`
	// ForEnv: it gives the Slot values of env of its own, at the Revision that it has.
	ForEnv bool `json:"for_env,omitempty"`
	// OwnEnv names the Slot's own values of env that the last call gives to the CVM.
	OwnEnv string `json:"own_env,omitempty"`
	// Part is what the last call changes, Applied the parts whose effect is certain. Parts
	// are applied one after the other, one call each.
	Part    Part   `json:"part,omitempty"`
	Applied []Part `json:"applied,omitempty"`
	// GoneSince is when a listing first showed that the CVM is gone or another one; a
	// second such listing ends the Operation. Zero while the CVM is listed.
	GoneSince time.Time `json:"gone_since,omitzero"`
	// CallIssuedAt is set in the transaction that enters Acting, before the call.
	CallIssuedAt time.Time `json:"call_issued_at,omitzero"`
	// Calls counts issued platform calls with an effect.
	Calls int `json:"calls,omitempty"`
	// CallOutcome of the last issued call (R65): "" while undecided, else one of
	// the Outcome values.
	CallOutcome string `json:"call_outcome,omitempty"`
	// HashWanted and HashBefore are the compose hashes of To and of what ran when
	// the call was issued; where they differ, a read-back by hash decides (R66).
	HashWanted string `json:"hash_wanted,omitempty"`
	HashBefore string `json:"hash_before,omitempty"`
	// UpdatedBefore is the platform's own update time of the CVM before the call.
	UpdatedBefore time.Time `json:"updated_before,omitzero"`
	// BootErrorBefore is a boot error that stood before the call: it proves nothing
	// about the new boot.
	BootErrorBefore string `json:"boot_error_before,omitempty"`
	// Cause says why it was called off or failed, for counting (R80, R90), and of a Drain at
	// rest why what runs could not be drained.
	Cause Cause `json:"cause,omitempty"`
	// Proven: it ended without being done, and the Boot that was there then had proved To all the same.
	Proven bool `json:"proven,omitempty"`
	// Correlation is the platform's handle for the call, if it gave one.
	Correlation string `json:"correlation,omitempty"`
	// DrainDeadline and HealthyDeadline are absolute, so that a takeover does not restart them.
	DrainDeadline   time.Time `json:"drain_deadline,omitzero"`
	HealthyDeadline time.Time `json:"healthy_deadline,omitzero"`
	// AvailableSince is when everything but min_ready held (R8).
	AvailableSince time.Time `json:"available_since,omitzero"`
	// UnavailableFrom/Until bracket the time in which the Slot could not serve.
	UnavailableFrom  time.Time  `json:"unavailable_from,omitzero"`
	UnavailableUntil time.Time  `json:"unavailable_until,omitzero"`
	PlatformRunning  time.Time  `json:"platform_running,omitzero"`
	Entered          PhaseTimes `json:"entered"`
	CreatedAt        time.Time  `json:"created_at"`
	EndedAt          time.Time  `json:"ended_at,omitzero"`
}

// Clocks are the times in op that were read off the leader's clock when something was seen or done.
// What is due at a time, and when op ended, is none of them, nor is the platform's own time.
func (op *Operation) Clocks() []*time.Time {
	return []*time.Time{&op.CreatedAt, &op.GoneSince, &op.CallIssuedAt, &op.AvailableSince, &op.UnavailableFrom, &op.UnavailableUntil, &op.PlatformRunning}
}

// OutlivesRollout reports that op, once ended, still tells something about its Slot when another rollout
// is the current one: what told its CVM to boot, what ended with half of its change there, what followed
// that, what healed it, how often it could not be drained, and what deleted its CVM.
func (op Operation) OutlivesRollout() bool {
	return op.EndedHalfDone() || op.Phase == Superseded || op.Follows != "" || op.Actor == ActorHealing || op.Kind == Drain || op.Kind == Delete
}

// EndedHalfDone reports that op failed with some parts of its change there, and others not.
func (op Operation) EndedHalfDone() bool {
	return op.Kind == Update && op.Phase == Failed && len(op.Applied) > 0
}

// Counts reports that op tells something to a decision while rollout is its group's current one; "": there
// is none.
func (op Operation) Counts(rollout string) bool {
	return !op.Phase.Ended() || op.OutlivesRollout() || rollout != "" && op.Rollout == rollout
}

// Transfer is a planned hand-over of leadership (R53).
type Transfer struct {
	// ExpectedLeader is the Slot that must lead for the transfer to be made (R54).
	ExpectedLeader string `json:"expected_leader"`
	// Candidates, best first (R53, R56).
	Candidates []string `json:"candidates"`
	// Relief: the leader is sick, and moving leadership away is part of its repair.
	// Not counted as the rollout's one planned transfer.
	Relief bool `json:"relief,omitempty"`
	// Interim: the Candidates are to be removed, and nobody else can lead meanwhile. It is not
	// the rollout's one hand-over (R53): who takes over gives leadership away again.
	Interim bool `json:"interim,omitempty"`
	// Made and To are the outcome.
	Made bool   `json:"made,omitempty"`
	To   string `json:"to,omitempty"`
}

// RolloutState is where a rollout stands.
type RolloutState string

const (
	// Running: steps are made or waited for.
	Running RolloutState = "RUNNING"
	// PausedState: an operator paused it (R92).
	PausedState RolloutState = "PAUSED"
	// Complete: every in-scope Slot proved the target and is available (R6).
	Complete RolloutState = "COMPLETE"
	// PartitionReached: everything at or above the partition is done (R6).
	PartitionReached RolloutState = "PARTITION_REACHED"
	// FailedState: stopped by a failure (R99).
	FailedState RolloutState = "FAILED"
	// SupersededState: a newer spec replaced it (R105).
	SupersededState RolloutState = "SUPERSEDED"
)

// Rollout is the record at rollouts/<id>.
type Rollout struct {
	ID         string       `json:"id"`
	Group      string       `json:"group"`
	Generation uint64       `json:"generation"`
	From       string       `json:"from_revision,omitempty"`
	To         string       `json:"to_revision"`
	State      RolloutState `json:"state"`
	Reason     string       `json:"reason,omitempty"`
	// Verdict is why it failed, as it was judged then; nil while it has not. It stands
	// until a decision is recorded: an operator's, or a newer spec.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Forgiven: Operations up to this Order are no evidence any more, since somebody
	// decided to go on after them.
	Forgiven int `json:"forgiven,omitempty"`
	// Transfers made as planned; more than one is a defect (R53).
	Transfers int `json:"transfers"`
	// Steps counts Operations begun, and numbers them.
	Steps     int       `json:"steps"`
	StartedAt time.Time `json:"started_at"`
	// ProgressAt is when the progress clock began: at the last arrival, resume, retry, or
	// when the rollout was opened again (R88).
	ProgressAt time.Time `json:"progress_at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	// PausedAt is set while paused, or while it waits for Slots that an operator drained or
	// protects, so that what follows restarts the clocks (R93).
	PausedAt time.Time `json:"paused_at,omitzero"`
	// WaitsSince is set while all that is left waits for a person's decision, an approval,
	// a wider bound or the workload's word, so that the clocks begin anew when it comes (R88).
	WaitsSince time.Time `json:"waits_since,omitzero"`
	// By and Request are the caller and the request that applied the spec which began the rollout. A spec
	// that no call of the API wrote has no Request, and By says so; By is empty in a record of an older version.
	By      string `json:"by,omitempty"`
	Request string `json:"request,omitempty"`
	// RetriedBy and RetryRequest are the caller and the request of the last retry; empty: there was none.
	RetriedBy    string `json:"retried_by,omitempty"`
	RetryRequest string `json:"retry_request,omitempty"`
	Term         uint64 `json:"term"`
}

// Verdict is a judgement about a rollout as it was made: it is recorded, not derived
// anew, so that what happens later neither takes it back nor makes it twice (I6).
type Verdict struct {
	// Cause is a Cause, or one of the Verdict causes.
	Cause Cause `json:"cause"`
	// Slot and Operation are where it was seen; empty for the rollout as a whole.
	Slot      string `json:"slot,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Phase the Operation was in.
	Phase  Phase     `json:"phase,omitempty"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}
