package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/queue"
	"cadre.dev/core/upgrade"
)

// Decide returns the whole decision of one pass from the leader's spec, records and observation. Decide is pure:
// the same input gives the same Plan, in any order of the Slots and Operations (R1). The Plan lists every Action
// that will be needed. The caller may start an Action with Execute by Begin. Every other Action carries all its
// reasons (R2).
//
// Preconditions: spec is normalised and validates. rec is the content of the store, with the caller's own last
// write in it (R69). obs was made after rec was read.
func Decide(spec group.Spec, rec Records, obs Observation, now time.Time, t Timing) Plan {
	return Evaluate(spec, rec, obs, now, t).Plan()
}

// Evaluate starts a Pass over the leader's input; Decide states the preconditions.
func Evaluate(spec group.Spec, rec Records, obs Observation, now time.Time, t Timing) *Pass {
	w := newWorld(spec, rec, obs, now, t)
	w.trackRollout()
	if w.rollout.Goal() != w.target {
		// This pass began or ended a rollback. Every step is decided for the Revision that the group moves to from now on.
		superseded := w.superseded
		rec.Rollout = w.rollout
		w = newWorld(spec, rec, obs, now, t)
		w.trackRollout()
		w.superseded = superseded
	}
	w.noteBetween()
	return &Pass{w: w}
}

// Plan is the whole decision of the Pass.
func (pass *Pass) Plan() Plan {
	w := pass.w
	actions, warnings := w.decide()
	p := Plan{
		Group:      w.spec.Name,
		Target:     w.asked,
		Stable:     w.stable,
		Generation: w.generation,
		Actions:    actions,
		Rollout:    w.rollout,
		Superseded: w.superseded,
		Warnings:   warnings,
		Answered:   w.answered(),
		Gone:       w.gone(),
	}
	w.keepMembership()
	p.Moves = w.movesOf(actions)
	p.Slots, p.Forget = w.slotRecords()
	p.Message = w.message(actions)
	p.Status = w.status(p)
	p.Status.Queue = w.place(actions)
	p.Wake, p.Clock = w.wake(actions)
	p.Actions = append(p.Actions, w.healsToCome(actions)...)
	return p
}

// gone reports that the group is being deleted and has no members left.
func (w *world) gone() bool {
	return w.ending() && len(w.everyone) == 0 && w.obs.Complete()
}

// answered returns the requests that are complete: their Operation is recorded, or the group has no such Slot or
// Operation.
func (w *world) answered() []string {
	if len(w.obs.Requests) == 0 {
		return nil
	}
	var ids []string
	ops := make(map[string]bool, len(w.rec.Operations))
	open := make(map[string]bool)
	for i := range w.rec.Operations {
		op := &w.rec.Operations[i]
		ops[op.Request.ID] = true
		open[op.ID] = !op.Phase.Ended()
	}
	for _, r := range w.obs.Requests {
		done := r.Spent || ops[r.ID]
		switch r.Kind {
		case RequestRestart, RequestUpdate, RequestReplace:
			m := w.find(r.Slot)
			// A Slot that is to be removed gets no other step. If an operator wants the Slot again weeks later, the
			// old request gives no consent to the loss of its disk.
			done = done || m == nil || m.terminating || m.open == nil && (m.missing() || w.outlived(m, r))
			if m != nil && r.Kind != RequestReplace {
				// The CVM to restart or update is gone, and the request does not apply to its successor. One
				// listing without the CVM may be the platform's mistake.
				done = done || m.open == nil && w.certainlyGone(m)
			}
			if m != nil && r.Kind == RequestUpdate {
				done = done || m.open == nil && w.obs.Complete() && !w.outdated(m) // the Slot runs the wanted Revision
			}
		case RequestResolve:
			done = !open[r.Operation]
		case RequestRetry, RequestPromote:
			done = true // the request was recorded together with the rollout that it concerns
		}
		if done {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// decide evaluates the candidates in order. An accepted candidate counts at once. The scan continues after a held
// candidate, since a later candidate may be free to begin (R27).
func (w *world) decide() (actions []Action, warnings []string) {
	candidates := w.candidates()
	actions = slices.Grow(w.inProgress(), len(candidates))
	taken := &taken{}
	for _, c := range candidates {
		a := w.action(c)
		a.Before.Quorum, a.DrainWithin = w.quorumSnapshot(c, taken), w.drainLimit(a.Way, a.From)
		a.Holds, a.Overridden = w.passed(w.allHoldsOf(c, evaluation{taken: taken}))
		if len(a.Holds) == 0 {
			a.Execute = true
			taken.add(w, c)
		} else if a.Request.ID != "" && c.kind == operation.Replace {
			// The replacement precedes all steps that could bring the Slot back, and may wait for such a step.
			a.Holds[0].Message += fmt.Sprintf("; nothing else is done about %s meanwhile, to take it back: cadre operation cancel %s", c.m.slot, a.Request.ID)
		}
		actions = append(actions, a)
	}
	return actions, w.warnings(actions)
}

// inProgress lists the open Operations: they come before new steps (R36).
func (w *world) inProgress() []Action {
	var actions []Action
	for _, m := range w.everyone {
		if m.open == nil || w.retargetable(m) || m.staysStopped() && w.groupStopped() {
			continue
		}
		op := m.open
		actions = append(actions, Action{
			Slot: m.slot, Ordinal: m.ordinal, Kind: op.Kind, Actor: op.Actor, Request: op.Request, From: op.From, To: op.To, Execute: true,
			Operation: op.ID, Phase: op.Phase, Transfer: op.Transfer, Way: op.Way, Before: op.Before,
			CVM: op.CVM, Set: op.Set, Attempt: op.Attempt, Extra: m.record.Extra, Ticket: op.Ticket, Overridden: op.Overridden,
		})
	}
	return actions
}

// action is the step of c, without the verdict.
func (w *world) action(c candidate) Action {
	m := c.m
	a := Action{Slot: m.slot, Ordinal: m.ordinal, Kind: c.kind, Actor: c.actor, Why: m.want.why, From: m.observed, To: c.to, Class: c.class}
	a.Takes = w.actionOf(c)
	switch {
	case a.Kind == operation.Update && a.Takes == group.ActionRefresh:
		a.Way.Mode = operation.ModeRefresh
	case c.forOwn:
		a.Way.Mode = operation.ModeOwn
	}
	if c.forOwn {
		a.Why = w.ownWhy(m)
	}
	if r := m.request; r != nil && c.actor == operation.ActorOperator {
		a.Request.ID, a.Request.Note, a.Request.By, a.Way.Service = r.ID, r.Reason, r.By, c.service
	}
	if c.actor == operation.ActorHealing {
		a.Why, a.Request.Note, a.Before.Down, a.Before.Shared, a.Way.Service = "heals: "+c.why, c.why, c.down, w.shared(c), c.service
		if c.kind == operation.Restart && c.service == "" && !c.down && m.hangs() {
			a.Way.Mode = operation.ModeForce
		}
	}
	if a.From == "" || m.pendingBoot.To == "" && m.awaitsBoot() {
		a.From = m.record.Assigned // the Boot that proved the other Revision is gone, by a step of the Slot
	}
	a.Attempt, a.Ticket = 1+m.attempts(c.to), w.ticketOf(c)
	a.Set.Joins, a.Extra = w.joins(c), m.record.Extra
	if c.kind == operation.Create {
		a.From = ""
		return a
	}
	a.CVM.InstanceID, a.CVM.VMUUID = m.record.InstanceID, m.record.VMUUID
	if m.seen.Admission != nil {
		a.Before.BootID = m.seen.Admission.BootID
	}
	if c.kind == operation.Delete {
		a.To = ""
	}
	if c.kind == operation.Stop {
		a.From = a.To // the step gives the CVM nothing, so that its end takes nothing back
	}
	if c.kind == operation.Replace {
		a.CVM.Incarnation = m.record.Incarnation + 1
		if m.vanished() {
			a.CVM.InstanceID, a.CVM.VMUUID = "", "" // a Replace names the CVM that it creates
		}
	}
	if !m.rests() {
		a.Retarget = m.open
	}
	a.Before.PendingBoot = m.pendingBootBefore()
	a.Transfer = w.transfer(c)
	a.Before.Unavailable = m.down()
	a.Way.SkipDrain = w.nothingToDrain(c)
	if c.refresh {
		a.Transfer, a.Way.SkipDrain = nil, false // a refresh neither moves leadership nor stops the workload
	}
	return a
}

// nothingToDrain reports that no agent can run the hooks, or that the process is certainly down whose work they
// would move away. A failing check is no evidence about that work. A drain by an operator's request never claims
// work that was not done.
func (w *world) nothingToDrain(c candidate) bool {
	m := c.m
	down := c.condition.certain() || c.actor == operation.ActorHealing && w.unanswered(m)
	return m.report == nil || m.open != nil && w.endedByCall(m, *m.open) || down && c.kind != operation.Drain && !w.serves(m)
}

// slotRecords returns the updated Slot records by ordinal, and the Slots that no longer bind anything.
func (w *world) slotRecords() (records []group.SlotRecord, forget []string) {
	records = make([]group.SlotRecord, 0, len(w.everyone))
	for _, m := range w.members {
		records = append(records, m.record)
	}
	terminating := slices.Clone(w.terminating)
	slices.Reverse(terminating)
	listed := w.ending() && w.mayBeListed()
	followers, _ := w.passed(w.holdsOfFollowers())
	for _, m := range terminating {
		// One listing without the CVM is not enough. Forgetting a Slot ends the lease and the tokens of its Boot.
		// With the group goes the last record of a CVM that the listing lacked.
		gone := w.certainlyGone(m)
		if w.ending() {
			gone = (gone && !listed || w.obs.Deletion.KeepCVMs) && len(followers) == 0
		} else {
			gone = gone && (m.deleted() || m.seen.Protection == nil && w.obs.Freeze == nil)
		}
		set := w.inSet(m)
		out := set == operation.SetUnasked || set == operation.SetAbsent
		if w.obs.Complete() && gone && m.open == nil && out {
			forget = append(forget, m.slot)
			continue
		}
		records = append(records, m.record)
	}
	return records, forget
}

// mayBeListed reports that the group is being deleted while members still run in a set that adds members. Such a
// set admits no newcomer while it lists a member that it cannot reach. An operator who takes the deletion back
// needs the records of the listed members. A listed member without a record would keep newcomers out permanently.
func (w *world) mayBeListed() bool {
	return group.AddsMembers(w.spec) && slices.ContainsFunc(w.everyone, func(m *member) bool { return m.seen.Instance != nil })
}

func (t *taken) add(w *world, c candidate) {
	if t.slots == nil {
		t.slots = make(map[string]bool)
	}
	t.slots[c.m.slot] = true
	if t.order = append(t.order, c.m); c.m.ordinal < t.order[0].ordinal {
		t.order[0], t.order[len(t.order)-1] = t.order[len(t.order)-1], t.order[0]
	}
	if !c.m.terminating && !c.m.extra && !c.m.unavailable() {
		t.added = append(t.added, c.m)
	}
	if c.m.terminating {
		t.removing = cmp.Or(t.removing, c.m)
	}
	if c.m.unsure {
		t.unsure++
	}
	if c.actor == operation.ActorHealing {
		t.healing++
	}
	t.steps += btoi(w.limitOf(c) == queue.Steps)
	if w.joins(c) || w.returns(c) {
		t.joining = append(t.joining, c.m)
	}
	w.take(c)
	switch c.kind {
	case operation.Create:
		t.creates = append(t.creates, c.m.slot)
	case operation.Replace:
		t.replacing = append(t.replacing, c.m)
	case operation.Update, operation.Restart, operation.Delete, operation.Drain, operation.Stop:
	}
	if w.voter(c.m) {
		t.voters = append(t.voters, c.m)
	}
}

// FactsFor collects the known facts about one open Operation, for operation.Advance. They include the second
// evaluation of quorum and roles (R50), whether the Operation is still wanted (R82, R105), and the clock of R8. The
// caller adds its own facts: Term and Call.
func FactsFor(spec group.Spec, rec Records, obs Observation, now time.Time, t Timing, op operation.Operation) operation.Facts {
	return Evaluate(spec, rec, obs, now, t).Facts(op)
}

// healsToCome returns the steps that heal Slots without another planned step, whose fault is not due yet. Such a
// step carries only that reason: its other predicates are evaluated when it is due.
func (w *world) healsToCome(planned []Action) []Action {
	var actions []Action
	for _, m := range w.members {
		a, faulty := w.faultOf(m)
		if !faulty || !a.at.After(w.now) || m.open != nil || m.drained() || slices.ContainsFunc(planned, func(p Action) bool { return p.Slot == m.slot }) {
			continue
		}
		r, ok := w.remedyFor(m, a)
		if !ok || w.spent(m, r) {
			continue
		}
		c := candidate{m: m, to: m.want.revision}
		w.healBy(&c, r, a)
		c.condition = m.condition
		c.class = w.class(m, c)
		step := w.action(c)
		waits := holdUntil(a.at, HoldHealBackoff, "%s; healed in %s unless %s comes back by itself", a.why, short(a.at.Sub(w.now)), m.slot)
		if m.report == nil && a.at.Equal(w.lostAt(m)) {
			waits = w.holdOfSilence(m)
		}
		step.Holds = append(w.holdsOfAttempts(c), waits)
		actions = append(actions, step)
	}
	return actions
}

// warnings are those of the spec, a freeze, and the exclusions that keep work back now. The plan has no step of an
// excluded Slot that could be held.
func (w *world) warnings(actions []Action) []string {
	out := group.Warnings(w.spec)
	frozen := func(a Action) bool { return a.HeldBy(HoldFrozen) }
	if w.obs.Freeze != nil && !slices.ContainsFunc(actions, frozen) {
		out = append(out, w.frozen().Message)
	}
	out = append(out, w.holdOverrideTexts()...)
	out = append(out, upgrade.Texts(w.versionFindings())...)
	for _, m := range w.members {
		behind := w.keptBy(m.ordinal) == group.KeptByOverride && m.observed != w.target
		if k := w.excluded(m.ordinal); k != nil && (behind || k.Excludes.Healing && !m.ready) {
			out = append(out, w.excludedText(m))
		}
	}
	return out
}
