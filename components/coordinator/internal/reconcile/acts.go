package reconcile

import (
	"cmp"
	"fmt"

	"cadre.dev/core/audit"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// note is the entry of an act of this leader. Leaders write often, so only the acts in this file
// have an entry, and the changes that answer an operator's record.
func (r *Reconciler) note(verb, request, reason string) audit.Entry {
	return audit.Entry{At: r.cfg.Now(), Who: audit.Leader, By: r.cfg.Slot, Request: request, Verb: verb, Reason: reason}
}

// noteRollout notes the begin of a rollout, its end, its failure, its rollback, and a retry.
func (r *Reconciler) noteRollout(op store.Op, before, after operation.Rollout) store.Op {
	verb := rolloutVerb(before, after)
	if verb == "" {
		return op
	}
	request, promoted := after.Request, ""
	switch verb {
	case "continue-rollout":
		request = after.RetryRequest
	case "promote-stage":
		request, promoted = "", fmt.Sprintf(", stage %d is over", after.StagesPassed)
		if after.Promoted == after.StagesPassed {
			request, promoted = after.PromoteRequest, fmt.Sprintf(", stage %d promoted by %s", after.Promoted, after.PromotedBy)
		}
	}
	text := fmt.Sprintf("group %s, revision %.12s, spec by %s", after.Group, after.To, cmp.Or(after.By, "unknown")) + promoted
	if after.Reason != "" {
		text += ": " + after.Reason
	}
	return store.Noted(op, r.note(verb, request, text))
}

// rolloutVerb is the act between two records of a rollout; "": none.
func rolloutVerb(before, after operation.Rollout) string {
	if before.ID == "" {
		return "start-rollout"
	}
	switch {
	case before.State == after.State && after.StagesPassed > before.StagesPassed:
		return "promote-stage"
	case before.State == after.State:
		return ""
	case before.State.Failed() && (after.State.Moves() || after.State == operation.BakingState || after.State == operation.PausedState):
		return "continue-rollout"
	}
	switch after.State {
	case operation.Complete, operation.PartitionReached:
		return "complete-rollout"
	case operation.FailedState:
		return "fail-rollout"
	case operation.RollingBack:
		return "roll-back-rollout"
	case operation.RolledBack:
		return "complete-rollback"
	case operation.SupersededState:
		return "supersede-rollout"
	case operation.Running, operation.BakingState, operation.PausedState:
	}
	return ""
}

// noteBegun notes an Operation that gives a Slot another CVM.
func (r *Reconciler) noteBegun(op store.Op, begun operation.Operation) store.Op {
	if begun.Kind != operation.Replace || op.Index != 0 {
		return op
	}
	return store.Noted(op, r.note("replace-instance", begun.Request.ID, cmp.Or(begun.Request.Note, begun.Reason, begun.Before.Quorum)))
}

// noteState notes that healing gave a Slot up.
func (r *Reconciler) noteState(op store.Op, before, after group.InstanceStatus) store.Op {
	if after.State != group.SlotQuarantined || before.State == group.SlotQuarantined {
		return op
	}
	return store.Noted(op, r.note("quarantine", "", after.Reason))
}
