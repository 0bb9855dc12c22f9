package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"cadre.dev/core/group"
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
	if p.Rollout.State == operation.FailedState && a.Actor == operation.ActorOperator && a.Kind == operation.Update {
		// An operator asked for another attempt: that is the decision to go on.
		goOn(p.Rollout, fmt.Sprintf("%s is tried again: %s", a.Slot, cmp.Or(a.Request.Note, "an operator asked for it")), p.Rollout.Steps-1, now)
	}
	op = operation.Operation{
		ID:       p.operationID(a),
		Rollout:  p.Rollout.ID,
		Actor:    a.Actor,
		Request:  a.Request,
		CVM:      a.CVM,
		Group:    p.Group,
		Slot:     a.Slot,
		Kind:     a.Kind,
		From:     a.From,
		To:       a.To,
		Attempt:  max(a.Attempt, 1),
		Order:    p.Rollout.Steps,
		Term:     term,
		Transfer: a.Transfer,
		Before:   a.Before,
		Way:      a.Way,
		Set:      a.Set,
	}.Begun(a.DrainWithin, now)
	if a.Actor == operation.ActorHealing || a.Actor == operation.ActorOperator && a.Kind != operation.Update {
		op.Rollout = "" // it is nothing that the rollout does, and no evidence about it
	}
	for i := range p.Slots {
		if p.Slots[i].Slot != a.Slot {
			continue
		}
		if a.Kind == operation.Create || a.Kind == operation.Update || a.Kind == operation.Replace {
			p.Slots[i].Assigned = a.To
		}
		if a.Kind == operation.Create {
			p.Slots[i].Membership = partOf(p.Slots[i].Membership, a.Set.Joins)
		}
		noteHeal(&p.Slots[i], a, now)
	}
	return op, true
}

// partOf is the part in the set of a Slot whose CVM is made: of one that does not join the list
// that it founds with stays.
func partOf(was *group.Membership, joins bool) *group.Membership {
	switch {
	case joins:
		return &group.Membership{Joins: true}
	case was != nil && len(was.Founders) > 0:
		return &group.Membership{Founders: was.Founders}
	}
	return nil
}

// operationID is the step's number in its rollout; what answers a request is named by
// the request, so that a request cannot be carried out twice.
func (p *Plan) operationID(a Action) string {
	if a.Request.ID != "" {
		return requestID(a.Slot, a.Request.ID)
	}
	return fmt.Sprintf("%s.%d.%s", p.Rollout.ID, p.Rollout.Steps, a.Slot)
}

// maxID bounds an Operation's id, which is part of a key.
const maxID = 128

// requestID names the Operation that answers a request.
func requestID(slot, request string) string {
	id := slot + "." + request
	if len(id) > maxID {
		sum := sha256.Sum256([]byte(id))
		id = slot + "." + hex.EncodeToString(sum[:16])
	}
	return id
}
