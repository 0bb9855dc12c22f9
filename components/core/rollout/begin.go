package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"cadre.dev/core/operation"
)

// Begin creates the Operation that carries out a, and updates the Plan's own rollout and Slot records with it. The
// step gets its number, and Assigned becomes the new Revision (R5). Where a newer spec changes an open Operation, the
// record is that Operation's (R105). The caller writes all three records in one fenced transaction before any effect
// (R60). ok is false when a may not run.
func (p *Plan) Begin(a Action, term uint64, now time.Time) (op operation.Operation, ok bool) {
	if !a.Execute || a.Operation != "" || p.Rollout == nil {
		return operation.Operation{}, false
	}
	p.Rollout.Steps++
	p.Rollout.Term = term
	if p.Rollout.State == operation.FailedState && a.Actor == operation.ActorOperator && a.Kind == operation.Update {
		// An operator's request for another attempt is the decision to continue.
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
		Ticket:   a.Ticket,

		Overridden: a.Overridden,
	}.Begun(a.DrainWithin, now)
	if a.Retarget != nil {
		op = a.Retarget.Retarget(op)
	}
	if a.Kind == operation.Stop || a.Actor == operation.ActorHealing || a.Actor == operation.ActorOperator && a.Kind != operation.Update {
		op.Rollout = "" // the step is not part of the rollout, and no evidence about it
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

// operationID is the number of the step in its rollout. The Operation of a request has the request's name, so that
// a second Operation for the same request is impossible.
func (p *Plan) operationID(a Action) string {
	if a.Request.ID != "" {
		return requestID(a.Slot, a.Request.ID)
	}
	return fmt.Sprintf("%s.%d.%s", p.Rollout.ID, p.Rollout.Steps, a.Slot)
}

// maxID is the maximum length of an Operation's id, which is part of a KV key.
const maxID = 128

// requestID is the id of the Operation that answers a request.
func requestID(slot, request string) string {
	id := slot + "." + request
	if len(id) > maxID {
		sum := sha256.Sum256([]byte(id))
		id = slot + "." + hex.EncodeToString(sum[:16])
	}
	return id
}
