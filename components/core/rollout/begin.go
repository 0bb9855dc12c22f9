package rollout

import (
	"fmt"
	"time"

	"cadre.dev/core/operation"
)

// Begin makes the Operation that carries out a, and moves the Plan's own rollout
// and Slot records with it: the step is numbered, and Assigned becomes the new
// Revision (R5). The caller writes all three and ends a.Retarget in one fenced
// transaction before anything is done (R60). ok is false when a may not run.
func (p *Plan) Begin(a Action, term uint64, now time.Time) (op operation.Operation, ok bool) {
	if !a.Execute || a.Operation != "" || p.Rollout == nil {
		return operation.Operation{}, false
	}
	p.Rollout.Steps++
	p.Rollout.Term = term
	op = operation.Operation{
		ID:             fmt.Sprintf("%s.%d.%s", p.Rollout.ID, p.Rollout.Steps, a.Slot),
		Rollout:        p.Rollout.ID,
		Group:          p.Group,
		Slot:           a.Slot,
		Kind:           a.Kind,
		InstanceID:     a.InstanceID,
		VMUUID:         a.VMUUID,
		From:           a.From,
		To:             a.To,
		Attempt:        max(a.Attempt, 1),
		Order:          p.Rollout.Steps,
		Phase:          operation.Recorded,
		Reason:         "recorded",
		Term:           term,
		Transfer:       a.Transfer,
		QuorumSnapshot: a.Quorum,
		SkipDrain:      a.SkipDrain,
		WasUnavailable: a.WasUnavailable,
		Sick:           a.Sick,
		BootBefore:     a.BootBefore,
		Entered:        operation.PhaseTimes{operation.Recorded: now},
		CreatedAt:      now,
	}
	for i := range p.Slots {
		if p.Slots[i].Slot == a.Slot && (a.Kind == operation.Create || a.Kind == operation.Update) {
			p.Slots[i].Assigned = a.To
		}
	}
	return op, true
}
