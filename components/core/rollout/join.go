package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// judge derives the state of m: the fresh report, the attested Revision, whether m is available, and the updated
// Slot record.
func (w *world) judge(m *member) {
	w.unbind(m)
	m.bind(w.appID)
	w.keepNode(m)
	admitted := m.admitted()
	if admitted {
		m.observed = m.seen.Admission.Revision
	}
	if admitted {
		m.pendingBoot = w.findPendingBoot(m, m.seen.Admission.BootID)
	}
	if r := m.seen.Report; r != nil && admitted && m.pendingBoot.To == "" && r.BootID == m.seen.Admission.BootID && w.fresh(r) && !m.outlived(r) {
		m.report = r
	}
	m.speaks = m.report != nil && w.now.Sub(m.report.ReceivedAt) < operation.LiveWithin
	m.cut = m.report != nil && !m.report.CutAt.IsZero() && !w.obs.At.Before(m.report.CutAt)
	m.reason = w.notReady(m)
	m.ready = m.reason == ""
	if w.t.StopFirst && w.spec.AutoHealing != nil && admitted {
		w.noteOwnBoot(m)
	}
	w.keepClock(m)
	minReady, held := group.MinReady(w.spec), w.now.Sub(m.record.AvailableSince)
	m.settled = m.inService() && held >= minReady
	m.flaps = m.inService() && w.flapLeft(m) > 0
	m.available = m.settled && !m.flaps
	if m.ready && !m.available && m.reason == "" {
		m.reason = "in a step"
		if m.flaps {
			m.reason = fmt.Sprintf("flapping: %s, %s left", w.flapText(), short(w.flapLeft(m)))
		} else if left := minReady - held; left > 0 {
			m.reason = fmt.Sprintf("min_ready, %s left", short(left))
		}
	}
	if m.settled {
		m.record.WasAvailableAt = m.observed
	}
	if m.available {
		w.dropFlaps(m)
	}
	w.keepAssigned(m)
	w.keepData(m)
	w.keepRecovery(m)
	w.keepSilence(m)
	w.keepHeals(m)
}

// Extra members (R15a): during a rollout, a group with max_surge has some additional members. They keep the wanted
// number of members in service while one is away. A group that may spare no member also gets an extra member for an
// update or restart by a Slot's name (byname.go).
//
// Extra members are made like every Slot made during a rollout, at the stable Revision (R107). The platform makes a
// CVM only at content that a CVM of the app already had. Extra members are updated first, because their ordinals are
// the highest. Their disks are their own, and no member needs the data when they go.

// extras returns the ordinals of the Slots that the group has for its rollout, or for a request by a Slot's name.
func (w *world) extras() []int {
	limit := group.MaxSurge(w.spec)
	if limit == 0 || w.rec.Rollout == nil {
		return nil
	}
	named := w.wantedByName()
	if named == 0 && w.surgeOver() {
		return nil
	}
	there := w.beyond()
	first := 0
	if all := w.spec.Ordinals(); len(all) > 0 {
		first = all[len(all)-1] + 1
	}
	end := min(first+limit+len(there.taken), group.MaxReplicas)
	var out []int
	for n := first; n < end && len(out) < limit; n++ {
		if there.extra[n] {
			out = append(out, n)
		}
	}
	most := min(w.extrasOfUse(named), limit-there.lost)
	for n := first; n < end && len(out) < most; n++ {
		if !there.extra[n] && !there.taken[n] {
			out = append(out, n)
		}
	}
	return out
}

func (w *world) joinView() view {
	v := view{roles: group.HasDriver(w.spec), voting: group.HasVoters(w.spec), healthy: map[string]bool{}}
	for _, m := range w.everyone {
		if m.report == nil {
			continue
		}
		v.roles = v.roles || m.report.Role == RoleLeader || m.report.Role == RoleFollower
		v.voting = v.voting || m.report.QuorumMember
	}
	v.leader, v.leaderDoubt = w.findLeader()
	v.voters, v.votersDoubt = w.findVoters(w.find(v.leader))
	if lead := w.find(v.leader); lead != nil {
		v.learners, v.ids = w.listedBy(lead)
	}
	w.nameSilent()
	for _, m := range w.everyone {
		if slices.Contains(v.voters, m.slot) && m.report != nil && !m.stopped() && !w.unlisted(m) && m.votes() {
			v.healthy[m.slot] = true
		}
	}
	return v
}

// desired returns the group's wanted ordinals: the first ordinals, and some more for the time of a rollout.
func (w *world) desired() []int {
	if w.obs.Deletion != nil {
		return nil
	}
	return append(w.spec.Ordinals(), w.extras()...)
}

// joinOperations gives each member its Operations in the recorded order.
func (w *world) joinOperations() {
	ops := slices.Clone(w.rec.Operations)
	slices.SortFunc(ops, w.recorded)
	for i := range ops {
		op := &ops[i]
		m := w.bySlot[op.Slot]
		if m == nil {
			continue
		}
		if op.Before.PendingBoot.To != "" || endsBetweenParts(op) {
			m.pendingBoots = append(m.pendingBoots, op)
		}
		// The Operations of other rollouts have numbers of their own, without an order among these.
		ofRollout := w.rec.Rollout != nil && op.Rollout == w.rec.Rollout.ID
		if ofRollout {
			m.lastOrder = max(m.lastOrder, op.Order)
		}
		if !op.Phase.Ended() {
			m.open = op
		} else if ofRollout && op.Order > w.rec.Rollout.Forgiven {
			m.past = append(m.past, *op)
		}
		if (ofRollout || !op.Phase.Ended()) && makes(op) {
			m.makers = append(m.makers, op)
		}
		// Any rollout counts: when a Slot is wanted again, the rollout that deleted its CVM was superseded.
		if op.Kind == operation.Delete && op.Phase == operation.Done && op.CVM.VMUUID == m.record.VMUUID {
			m.removal = op
		}
		if op.Actor == operation.ActorHealing && op.Phase.Ended() {
			m.healed = append(m.healed, op)
		}
		if (op.Kind == operation.Drain || op.Kind == operation.Stop) && op.Phase.Ended() {
			m.drains = append(m.drains, *op)
		}
	}
}

// joinSlots makes one member per desired ordinal, and one per terminating Slot with a record or a CVM.
func (w *world) joinSlots() {
	desired := w.desired()
	n := max(len(desired), len(w.rec.Slots))
	byOrdinal := make(map[int]*member, n)
	w.bySlot = make(map[string]*member, n)
	wanted := make(map[int]bool, n)
	at := func(ordinal int) *member {
		if m := byOrdinal[ordinal]; m != nil {
			return m
		}
		slot := group.SlotName(w.spec.Name, ordinal)
		m := &member{slot: slot, ordinal: ordinal, terminating: !wanted[ordinal]}
		m.record = group.SlotRecord{Group: w.spec.Name, Slot: slot, Ordinal: ordinal}
		m.extra = wanted[ordinal] && !w.spec.HasOrdinal(ordinal)
		m.record.Extra = m.extra
		byOrdinal[ordinal], w.bySlot[slot] = m, m
		if m.terminating {
			w.terminating = append(w.terminating, m)
		} else {
			w.members = append(w.members, m)
		}
		return m
	}
	for _, ordinal := range desired {
		wanted[ordinal] = true
		at(ordinal)
	}
	for i := range w.rec.Slots {
		if r := &w.rec.Slots[i]; w.ofGroup(r) {
			m := at(r.Ordinal)
			m.record, m.wasAvailableAt, m.boundBefore = *r, r.WasAvailableAt, r.VMUUID
			m.policed = w.rec.Policies[m.slot].InstanceID
		}
	}
	for i := range w.obs.Slots {
		if o := &w.obs.Slots[i]; wanted[o.Ordinal] || byOrdinal[o.Ordinal] != nil || o.Instance != nil {
			at(o.Ordinal).seen = *o
		}
	}
	slices.SortFunc(w.members, func(a, b *member) int { return cmp.Compare(a.ordinal, b.ordinal) })
	slices.SortFunc(w.terminating, func(a, b *member) int { return cmp.Compare(b.ordinal, a.ordinal) })
	w.everyone = slices.Concat(w.members, w.terminating)
	for _, m := range w.members {
		m.record.Extra = m.extra // a Slot that the group grew over stays
	}
}

func newWorld(spec group.Spec, rec Records, obs Observation, now time.Time, t Timing) *world {
	w := &world{spec: spec, rec: rec, obs: obs, now: now, t: t.OrDefault()}
	w.obs.Fleet = obs.Fleet.sorted()
	w.asked = spec.Revision()
	w.target = w.asked
	w.stable = rec.Status.Stable
	if r := rec.Rollout; r != nil && r.State == operation.Complete && !w.madeAnew() {
		w.stable = r.To // the rollout is recorded before the status, and a leader may die in between
	}
	w.generation = w.nextGeneration()
	w.turnBack()
	w.dropEnded(w.obs.overrides()) // the set of members depends on the overrides
	w.joinSlots()
	w.joinOperations()
	w.joinRequests()
	for _, m := range w.everyone {
		w.dropEnded(m.seen.overrides())
	}
	w.appID = w.knownAppID()
	for _, m := range w.everyone {
		w.judge(m)
	}
	w.view = w.joinView()
	for _, m := range w.everyone {
		m.condition = w.conditionOf(m)
	}
	w.noteFlaps()
	w.founders = w.foundersOf()
	w.decideWanted()
	w.takeTally()
	return w
}

// nextGeneration counts accepted edits that changed the target or the size.
func (w *world) nextGeneration() uint64 {
	s := w.rec.Status
	if s.Target == w.asked && s.Replicas == w.spec.Replicas {
		return max(s.Generation, 1)
	}
	return s.Generation + 1
}

// recorded orders Operations as they were recorded: by Term and number, never by a clock, since leaders' clocks
// differ. Each rollout restarts the count. The count includes Operations outside the rollout's steps, whose ids begin
// as the steps' ids do, and requests by name, whose ids do not. The current rollout's Operations came after all
// others. An open Operation is its Slot's last.
func (w *world) recorded(a, b operation.Operation) int {
	open, began := btoi(!a.Phase.Ended())-btoi(!b.Phase.Ended()), btoi(w.began(&a))-btoi(w.began(&b))
	return cmp.Or(open, began, cmp.Compare(a.Term, b.Term), cmp.Compare(a.Order, b.Order), cmp.Compare(a.ID, b.ID))
}
