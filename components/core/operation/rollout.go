package operation

import "time"

// RolloutState is the state of a rollout.
type RolloutState string

const (
	// Running: the rollout makes steps or waits for them.
	Running RolloutState = "RUNNING"
	// BakingState: every Slot proved the target, and their last bake runs. A Slot that fails in it is evidence (R91).
	BakingState RolloutState = "BAKING"
	// PausedState: an operator paused it (R92).
	PausedState RolloutState = "PAUSED"
	// Complete: every in-scope Slot proved the target and is available (R6).
	Complete RolloutState = "COMPLETE"
	// PartitionReached: every Slot at or above the partition is done (R6).
	PartitionReached RolloutState = "PARTITION_REACHED"
	// FailedState: stopped by a failure (R99).
	FailedState RolloutState = "FAILED"
	// SupersededState: a newer spec replaced it (R105).
	SupersededState RolloutState = "SUPERSEDED"
	// RollingBack: it failed, and makes steps back to the stable Revision, or waits for them (R101).
	RollingBack RolloutState = "ROLLING_BACK"
	// RolledBack: it failed, and each in-scope Slot is back at the stable Revision and available. It stands until an
	// operator retries the rollout, or a newer spec replaces it.
	RolledBack RolloutState = "ROLLED_BACK"
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
	// Verdict is the recorded reason of the failure; nil while the rollout has not failed. It stands until an operator's
	// decision or a newer spec is recorded.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Back is the rollback that the failure began; nil without one.
	Back *Back `json:"back,omitempty"`
	// Forgiven: Operations up to this Order are no evidence any more, since an operator decided to continue after them.
	Forgiven int `json:"forgiven,omitempty"`
	// Transfers counts the planned transfers; more than one is a defect (R53).
	Transfers int `json:"transfers"`
	// Steps counts the Operations begun, and numbers them.
	Steps     int       `json:"steps"`
	StartedAt time.Time `json:"started_at"`
	// ProgressAt is when the progress clock began: at the last arrival, resume, retry, or
	// when the rollout was opened again (R88).
	ProgressAt time.Time `json:"progress_at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	// PausedAt is set while the rollout is paused, or while it waits for Slots that an operator drained or protects.
	// When the pause ends, the clocks restart (R93).
	PausedAt time.Time `json:"paused_at,omitzero"`
	// WaitsSince is set while the rollout waits only for a window, an operator's decision, an approval, a wider bound or the
	// workload's permission. When the wait ends, the clocks restart (R88).
	WaitsSince time.Time `json:"waits_since,omitzero"`
	// The fields of stages and bakes are written only where the spec has them, since an older coordinator refuses a
	// record with an unknown field.
	Stages
	// By and Request are the caller and the request that applied the spec which began the rollout. If no API call wrote
	// the spec, Request is empty and By says so. By is empty in a record of an older version.
	By      string `json:"by,omitempty"`
	Request string `json:"request,omitempty"`
	// RetriedBy and RetryRequest are the caller and the request of the last retry; empty without a retry.
	RetriedBy    string `json:"retried_by,omitempty"`
	RetryRequest string `json:"retry_request,omitempty"`
	Term         uint64 `json:"term"`
}

// Stages is how far a rollout has come in the stages of its spec (R91, R94, R95).
type Stages struct {
	// StagesPassed counts the stages that are over.
	StagesPassed int `json:"stages_passed,omitempty"`
	// BakeSince is when the present bake began: all Slots of the open stage, or of the group, had arrived. Zero: no bake
	// runs.
	BakeSince time.Time `json:"bake_since,omitzero"`
	// Promoted is the number of the last stage that an operator promoted, from 1. PromotedBy and PromoteRequest are the
	// caller and the request.
	Promoted       int    `json:"promoted,omitempty"`
	PromotedBy     string `json:"promoted_by,omitempty"`
	PromoteRequest string `json:"promote_request,omitempty"`
}

// Back is the rollback of a rollout: the way back to the stable Revision after a failure (R101). A rollout has at most
// one, and the spec stays as the operator wrote it.
type Back struct {
	// Revision is the Revision that the Slots return to.
	Revision string    `json:"revision"`
	Since    time.Time `json:"since"`
	// Verdict is the evidence against the rollout's own Revision.
	Verdict Verdict `json:"verdict"`
	// After is the number of the rollout's last Operation before the rollback.
	After int `json:"after,omitempty"`
	// Transfers counts the planned transfers of the rollback; more than one is a defect (R53).
	Transfers int `json:"transfers,omitempty"`
	// Over: an operator retried the rolled back rollout, which goes to its own Revision again.
	Over bool `json:"over,omitempty"`
	// Done: every Slot returned once. Later steps follow all settings of the spec.
	Done bool `json:"done,omitempty"`
}

// Goal is the Revision that the rollout moves its Slots to now.
func (r *Rollout) Goal() string {
	if r.Back != nil && !r.Back.Over {
		return r.Back.Revision
	}
	return r.To
}

// Onward is the state of the rollout while it makes steps or waits for them.
func (r *Rollout) Onward() RolloutState {
	if r.Goal() != r.To {
		return RollingBack
	}
	return Running
}

// Moves reports that a rollout in this state makes steps, or waits for them.
func (s RolloutState) Moves() bool { return s == Running || s == RollingBack }

// Failed reports that the Revision of a rollout in this state failed, and that the next step is an operator's decision.
func (s RolloutState) Failed() bool { return s == FailedState || s == RolledBack }

// Verdict is a recorded judgement about a rollout. It is made once, and later events leave it unchanged (I6).
type Verdict struct {
	// Cause is a Cause, or one of the Verdict causes.
	Cause Cause `json:"cause"`
	// Slot and Operation locate the evidence; empty for the rollout as a whole.
	Slot      string `json:"slot,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Phase is the phase of the Operation at the verdict.
	Phase  Phase     `json:"phase,omitempty"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}
