package rollout_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

// storyStore holds the records that survive every process, as they are stored.
type storyStore struct {
	status     group.Status
	slots      map[string]group.SlotRecord
	policies   map[string]policy.SlotPolicy
	revisions  map[string]group.RevisionRecord
	rollouts   map[string]operation.Rollout
	operations map[string]operation.Operation
	requests   []rollout.Request
	commits    int
}

// copied is v as it comes back from the store. Records are copied when they are written: no reader changes them (R1).
func copied[T any](v T) T {
	var out T
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

func sameRecord[T any](a, b T) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// records are read back for one pass.
func (c *coordinator) records() rollout.Records {
	s := c.store
	rec := rollout.Records{SpecIndex: 7, Status: s.status, Revisions: s.revisions}
	for _, slot := range slices.Sorted(maps.Keys(s.slots)) {
		rec.Slots = append(rec.Slots, s.slots[slot])
	}
	for _, r := range s.rollouts {
		if now := rec.Rollout; now == nil || cmp.Or(cmp.Compare(r.Generation, now.Generation), cmp.Compare(r.ID, now.ID)) > 0 {
			one := r
			rec.Rollout = &one
		}
	}
	current := ""
	if rec.Rollout != nil {
		current = rec.Rollout.ID
	}
	for _, id := range slices.Sorted(maps.Keys(s.operations)) {
		op := s.operations[id]
		if op.Counts(current) {
			rec.Operations = append(rec.Operations, op)
		}
	}
	return rec
}

// record writes the plan's records in one transaction.
func (c *coordinator) record(rec rollout.Records, now time.Time) (changed bool) {
	p, s := &c.plan, &c.store
	if c.recordNewSlots() {
		return true
	}
	begun := 0
	for _, a := range p.Actions {
		if begun == begunInAPass {
			break
		}
		op, ok := p.Begin(a, c.term, now)
		if !ok {
			continue
		}
		begun++
		c.check.begun(a, op, rec)
		if a.Retarget != nil {
			c.moves.made(a.Retarget.Phase, op.Phase)
		}
		c.keep(op)
		c.writes[op.ID]++
	}
	changed = begun > 0
	for _, r := range []*operation.Rollout{p.Rollout, p.Superseded} {
		if r == nil {
			continue
		}
		before, known := s.rollouts[r.ID]
		after := copied(*r)
		if after.Term = before.Term; known && stillText(before.Reason) == stillText(after.Reason) {
			after.Reason = before.Reason
		}
		if !known || !sameRecord(before, after) {
			after.Term = c.term
			s.rollouts[r.ID], changed = after, true
		}
		if before.State != after.State {
			c.log("rollout to %s: %s%s", c.w.name(r.To), after.State, because(after.Reason))
		}
	}
	for _, slot := range p.Slots {
		if before, known := s.slots[slot.Slot]; !known || !sameRecord(before, slot) {
			s.slots[slot.Slot], changed = copied(slot), true
		}
	}
	for _, slot := range p.Forget {
		if _, known := s.slots[slot]; known {
			delete(s.slots, slot)
			c.log("%s is forgotten", slot)
			changed = true
		}
	}
	for _, id := range p.Answered {
		s.requests = slices.DeleteFunc(s.requests, func(r rollout.Request) bool { return r.ID == id })
		changed = true
	}
	if p.Gone && !c.gone {
		c.gone = true
		c.log("the group is gone")
	}
	if changed {
		s.commits++
	}
	c.tell(s.status, p.Status)
	s.status = copied(p.Status)
	return changed
}

// keep writes an Operation and logs its changes of Phase.
func (c *coordinator) keep(op operation.Operation) {
	before, known := c.store.operations[op.ID]
	c.store.operations[op.ID] = copied(op)
	subject := string(op.Kind) + " of " + op.Slot
	if op.Way.Service != "" {
		subject = string(op.Kind) + " of " + op.Way.Service + " in " + op.Slot
	}
	switch {
	case !known, before.To != op.To:
		c.note(subject, "%s%s", op.Phase, arrow(c.w, op))
	case before.Phase != op.Phase && op.Phase.Ended() && op.Phase != operation.Done:
		c.note(subject, "%s%s", op.Phase, because(op.Reason))
	case before.Phase != op.Phase:
		c.note(subject, "%s", op.Phase)
	}
}
