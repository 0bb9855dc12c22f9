package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Decide takes what the leader knows and returns the whole decision of this pass. It
// is pure: the same input gives the same Plan, in whatever order the Slots and
// Operations come (R1). Every Action that will be needed is listed; those with
// Execute may be begun with Begin, the others carry all their reasons (R2).
//
// Preconditions: spec is normalised and validates. rec is what the store holds,
// with the caller's own last write in it (R69). obs was made after rec was read.
func Decide(spec group.Spec, rec Records, obs Observation, now time.Time, t Timing) Plan {
	w := newWorld(spec, rec, obs, now, t)
	w.trackRollout()
	actions, warnings := w.decide()
	p := Plan{
		Group:      spec.Name,
		Target:     w.target,
		Stable:     w.stable,
		Generation: w.generation,
		Actions:    actions,
		Rollout:    w.rollout,
		Superseded: w.superseded,
		Warnings:   warnings,
	}
	p.Slots, p.Forget = w.slotRecords()
	p.Message = w.message(actions)
	p.Status = w.status(p)
	p.Wake = w.wake(actions)
	return p
}

// decide goes through the candidates in order. What is taken counts at once, and
// the scan goes on behind a held one: a later one may be free (R27).
func (w *world) decide() (actions []Action, warnings []string) {
	actions = w.inProgress()
	taken := &taken{}
	for _, c := range w.candidates() {
		a := w.action(c)
		a.Quorum = w.quorumSnapshot(c, taken)
		a.Holds = w.holdsOf(c, taken)
		if len(a.Holds) == 0 {
			a.Execute = true
			taken.add(w, c)
		}
		actions = append(actions, a)
	}
	return actions, group.Warnings(w.spec)
}

// inProgress lists the open Operations: they come before anything new (R36).
func (w *world) inProgress() []Action {
	var actions []Action
	for _, m := range w.all() {
		if m.open == nil || w.retargetable(m) {
			continue
		}
		op := m.open
		actions = append(actions, Action{
			Slot: m.slot, Ordinal: m.ordinal, Kind: op.Kind, From: op.From, To: op.To, Execute: true,
			Operation: op.ID, Phase: op.Phase, Transfer: op.Transfer, SkipDrain: op.SkipDrain, Sick: op.Sick, WasUnavailable: op.WasUnavailable, Quorum: op.QuorumSnapshot,
			InstanceID: op.InstanceID, VMUUID: op.VMUUID, BootBefore: op.BootBefore, Attempt: op.Attempt,
		})
	}
	return actions
}

// action is what c needs, without the verdict.
func (w *world) action(c candidate) Action {
	m := c.m
	a := Action{Slot: m.slot, Ordinal: m.ordinal, Kind: c.kind, From: m.observed, To: c.to, Class: c.class}
	if a.From == "" {
		a.From = m.record.Assigned
	}
	a.Attempt = 1 + w.attempts(m, c.to)
	if c.kind == operation.Create {
		a.From = ""
		return a
	}
	a.InstanceID, a.VMUUID = m.record.InstanceID, m.record.VMUUID
	if m.seen.Admission != nil {
		a.BootBefore = m.seen.Admission.BootID
	}
	if c.kind == operation.Delete {
		a.To = ""
	}
	if m.open != nil {
		a.Retarget = m.open.ID
	}
	a.Transfer = w.transfer(c)
	a.Sick, a.WasUnavailable = w.outsideQuorum(c), m.down()
	// Nothing to drain where nothing serves. A member that is called unavailable but
	// still votes or leads is drained all the same.
	a.SkipDrain = m.report == nil || !w.serves(m)
	return a
}

// attempts counts the Operations of m towards a Revision in this rollout.
func (w *world) attempts(m *member, to string) int {
	n := 0
	for _, op := range m.past {
		if op.To == to {
			n++
		}
	}
	return n
}

// slotRecords are the Slot records as they should read, by ordinal, and those that
// have nothing left to bind.
func (w *world) slotRecords() (records []group.SlotRecord, forget []string) {
	for _, m := range w.members {
		records = append(records, m.record)
	}
	condemned := slices.Clone(w.condemned)
	slices.Reverse(condemned)
	for _, m := range condemned {
		if w.obs.Complete && m.seen.Instance == nil && m.open == nil {
			forget = append(forget, m.slot)
			continue
		}
		records = append(records, m.record)
	}
	return records, forget
}
