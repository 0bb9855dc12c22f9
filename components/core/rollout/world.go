package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// world is the input of one pass, joined by Slot and put in order. Later code sees the same order for any order of the
// input (R1).
type world struct {
	spec group.Spec
	rec  Records
	obs  Observation
	now  time.Time
	t    Timing

	target     string
	stable     string
	generation uint64
	failedRevs []string
	rollout    *operation.Rollout
	superseded *operation.Rollout
	// judged holds the policy's decisions about Revisions in this pass.
	judged map[string]policy.Decision
	// moves are the differences between Revisions that this pass compared.
	moves map[move][]group.Change
	// seenBy holds the observation of each Slot by ordinal, built on demand.
	seenBy map[int]*SlotObservation

	// members are the desired Slots by ordinal. terminating are the Slots to remove, highest first. everyone is both.
	members     []*member
	terminating []*member
	everyone    []*member
	bySlot      map[string]*member
	tally       tally
	view        view
	// founders are the Slots that bootstrap the workload's set, while the bootstrap may go on.
	founders []string
	appID    string
	// retry is the operator's request to continue a failed rollout, or a refused step.
	retry *Request
	found found
}

// found holds answers that many members need, computed once for all. retally resets the answers that depend on the
// rollout's Operations.
type found struct {
	// remedies are the remedies for a member.
	remedies map[*member]healing
	// bucket is the token bucket of the group's limiter.
	bucket once[bucket]
	// leaders counts, by Slot, the members that live and name it as their leader.
	leaders once[map[string]int]
	// terminating is the member that is removed first. givenUp are the Slots whose disk an operator gave up.
	terminating once[*member]
	givenUp     once[map[string]bool]
	// waits: the rollout waits only for its workload's permission or an operator's decision.
	waits once[bool]
	// proven is the Revision for a new Slot until a member has proven the target.
	proven once[string]
}

// once is a value that is computed on the first request.
type once[T any] struct {
	value T
	known bool
}

func (o *once[T]) of(work func() T) T {
	if !o.known {
		o.value, o.known = work(), true
	}
	return o.value
}

// member is one Slot of the pass.
type member struct {
	slot    string
	ordinal int
	record  group.SlotRecord
	// wasAvailableAt is the record's value before this pass.
	wasAvailableAt string
	// boundBefore is the CVM that the record named before this pass.
	boundBefore string
	seen        SlotObservation
	// want is the Slot's wanted Revision.
	want want
	// report is the fresh report of the admitted Boot, or nil (R11).
	report *Report
	// speaks: the agent reported within the interval of a live agent's reports.
	speaks bool
	// cut: the agent reported recently, its connection ended, and the platform was asked after that. Then the platform's
	// state counts, but the agent is not treated as dead.
	cut bool
	// named: the member's own report is missing, and its followers still name it as their leader.
	named bool
	// request is an operator's request for the Slot, or nil.
	request *Request
	// open is the Operation in progress.
	open *operation.Operation
	history
	// policed is the Instance in the Slot's policy; "": none.
	policed string
	// moved is the Revision that a call gave to the CVM, while the admission still names the Boot before; otherwise
	// zero.
	moved operation.Moved
	// condition is the verdict of all evidence about the member.
	condition condition
	// observed is the attested Revision, or empty (R4).
	observed    string
	terminating bool
	// extra: the Slot exists for the time of a rollout, beyond the group's size.
	extra bool
	availability
}

// history is the evidence of the recorded Operations of a Slot.
type history struct {
	// past are the ended Operations of this rollout, oldest first.
	past []operation.Operation
	// makers are the Operations, open or ended and of any rollout, whose calls may have made a CVM with the Slot's name.
	makers []*operation.Operation
	// movers are the Slot's Operations, of any rollout, that began with a moved CVM or ended between two parts.
	movers []*operation.Operation
	// drains are the ended Operations that drained the Slot, of any rollout.
	drains []operation.Operation
	// healed are the ended Operations that healed the Slot, of any rollout.
	healed []*operation.Operation
	// removal is the completed deletion of the CVM that the Slot is bound to, or nil.
	removal *operation.Operation
}

// availability is how a member counts in its group.
type availability struct {
	// ready is R7 without min_ready. available adds min_ready and "not in a step". reason names the missing condition.
	ready     bool
	reason    string
	available bool
	// fell: the member was ready until this pass. settled: the member serves, and has served for min_ready. flaps: the
	// member serves and does not count yet, because its readiness changed too often (R9).
	fell, settled, flaps bool
	// unsure: the member is in U but may serve. Either it does not report or is unhealthy, and waits for a repair, or it
	// is between two parts of its step. between is only the second case.
	unsure, between bool
}

func newWorld(spec group.Spec, rec Records, obs Observation, now time.Time, t Timing) *world {
	w := &world{spec: spec, rec: rec, obs: obs, now: now, t: t.OrDefault()}
	w.obs.Fleet = obs.Fleet.sorted()
	w.target = spec.Revision()
	w.stable = rec.Status.Stable
	if r := rec.Rollout; r != nil && r.State == operation.Complete && !w.madeAnew() {
		w.stable = r.To // the rollout is recorded before the status, and a leader may die in between
	}
	w.generation = w.nextGeneration()
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
	w.view = w.look()
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
	if s.Target == w.target && s.Replicas == w.spec.Replicas {
		return max(s.Generation, 1)
	}
	return s.Generation + 1
}

// desired returns the group's wanted ordinals: the first ordinals, and some more for the time of a rollout.
func (w *world) desired() []int {
	if w.obs.Deletion != nil {
		return nil
	}
	return append(w.spec.Ordinals(), w.extras()...)
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

// ofGroup: the record belongs to a Slot of this group.
func (w *world) ofGroup(r *group.SlotRecord) bool { return r.Group == w.spec.Name || r.Group == "" }

// recorded orders Operations as they were recorded: by Term and number, never by a clock, since leaders' clocks
// differ. Each rollout restarts the count. The count includes Operations outside the rollout's steps, whose ids begin
// as the steps' ids do, and requests by name, whose ids do not. The current rollout's Operations came after all
// others. An open Operation is its Slot's last.
func (w *world) recorded(a, b operation.Operation) int {
	open, began := btoi(!a.Phase.Ended())-btoi(!b.Phase.Ended()), btoi(w.began(&a))-btoi(w.began(&b))
	return cmp.Or(open, began, cmp.Compare(a.Term, b.Term), cmp.Compare(a.Order, b.Order), cmp.Compare(a.ID, b.ID))
}

// began: op was recorded under the current rollout.
func (w *world) began(op *operation.Operation) bool {
	r := w.rec.Rollout
	return r != nil && (op.Rollout == r.ID || strings.HasPrefix(op.ID, r.ID+"."))
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
		if op.Before.Moved.To != "" || endsBetweenParts(op) {
			m.movers = append(m.movers, op)
		}
		// The Operations of other rollouts have numbers of their own, without an order among these.
		ofRollout := w.rec.Rollout != nil && op.Rollout == w.rec.Rollout.ID
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
		if op.Kind == operation.Drain && op.Phase.Ended() {
			m.drains = append(m.drains, *op)
		}
	}
}

// inScope: the rollout may update it (R22, R41).
func (w *world) inScope(m *member) bool { return !m.terminating && !m.want.kept }

// outdated: the member is in scope and not proven to run its wanted Revision, or received another Revision since the
// proof. A Slot that boots another Revision is no longer at the Revision of its last admission.
func (w *world) outdated(m *member) bool {
	switch {
	case !w.inScope(m):
		return false
	case m.observed == "":
		// The member needs an update if an operator must bind the CVM with its name, or must allow its assigned Revision
		// again.
		return m.unmanaged() || !w.givenTarget(m) || !w.mayRun(m.want.revision)
	}
	return m.observed != m.want.revision || w.givenOther(m) || w.specDrift(m) || w.envUnapplied(m)
}

// specDrift: the platform shows another size or image than wanted, and no Boot proves either. When two Revisions
// measure the same, the admission names either Revision. An open step checks this after its call is accepted; before
// that, the difference is the step's purpose.
func (w *world) specDrift(m *member) bool {
	i := m.seen.Instance
	return (m.open == nil || m.open.Kind == operation.Update && !m.open.Decided()) && i != nil && !w.platformWorks(m) && !i.Shape.Shows(w.shapeOf(m.want.revision))
}

// givenTarget: the member has proven nothing, but its CVM was made for or moved to the target, as far as known.
// Repeating the call would change nothing (R39).
func (w *world) givenTarget(m *member) bool {
	if m.open != nil && m.open.Decided() {
		return m.open.To == m.want.revision
	}
	wanted, i := w.rec.Revisions[m.want.revision].ComposeHash, m.seen.Instance
	if i != nil && i.ComposeHash != "" && wanted != "" {
		// A shared hash is no proof for a down CVM that received another Revision: a corrected spec starts that CVM (R39).
		assigned := m.record.Assigned
		if m.open != nil {
			assigned = m.open.From // the step has not changed the CVM yet
		}
		// The hash is no proof either if the CVM shows another state than assigned: an earlier call made it so. The Slot's
		// policy admits only the assigned Revision.
		shares := w.rec.Revisions[assigned].ComposeHash == wanted
		told := assigned == "" || assigned == m.want.revision || shares && !stoppedWord(i)
		return told && (i.ComposeHash == wanted || w.adoptedAs(m)) && i.Shape.Shows(w.shapeOf(m.want.revision))
	}
	last := m.last()
	return i != nil && m.record.Assigned == m.want.revision && (last == nil || last.Phase != operation.Aborted)
}

func (w *world) givenOther(m *member) bool {
	if m.open != nil && m.open.Decided() && m.open.Kind != operation.Restart {
		return m.open.To != m.want.revision
	}
	if m.moved.To != "" && (m.open == nil || !m.open.Decided()) {
		return m.moved.To != m.want.revision
	}
	wanted, i := w.rec.Revisions[m.want.revision].ComposeHash, m.seen.Instance
	return !m.ready && i != nil && !w.platformWorks(m) && i.ComposeHash != "" && wanted != "" && i.ComposeHash != wanted && !w.adoptedAs(m)
}

// adoptedAs: the CVM was adopted at its wanted Revision, with a document that another client wrote. The CVM's hash is
// that document's, and the Slot's policy allows it. Replacing the document by Cadre's own would only cost a restart.
func (w *world) adoptedAs(m *member) bool {
	i := m.seen.Instance
	return i != nil && slices.ContainsFunc(w.rec.Policies[m.slot].Allowed, func(a policy.AllowedRevision) bool {
		return a.Revision == m.want.revision && a.ComposeHash == i.ComposeHash
	})
}

// missing: no CVM fills the Slot, and its record binds none.
func (m *member) missing() bool {
	return m.seen.Instance == nil && m.record.InstanceID == "" && m.record.VMUUID == ""
}

// vanished: the listing lacks the CVM that was bound to the Slot.
func (m *member) vanished() bool { return m.seen.Instance == nil && !m.missing() }

// inService: the member is ready and in no step, available or about to be. Its loss would reduce the service.
func (m *member) inService() bool { return m.ready && m.open == nil }

// unavailable is membership in U (R20, R23). A Slot that never had a CVM is provisioning until its Operation is
// recorded (R29). A Slot that lost its CVM is unavailable.
func (m *member) unavailable() bool {
	if m.open != nil {
		return true
	}
	return !m.available && (!m.missing() || len(m.record.Lineage) > 0)
}

// down: the member is in U, and not only because it counts min_ready. A member that serves again while it counts is
// protected like an available member.
func (m *member) down() bool { return m.unavailable() && !m.ready }

// last is the newest ended Operation of the rollout, or nil.
func (m *member) last() *operation.Operation {
	if len(m.past) == 0 {
		return nil
	}
	return &m.past[len(m.past)-1]
}

// knownAppID returns the app of the group, once the spec or a member names it.
func (w *world) knownAppID() string {
	if w.spec.AppID != "" {
		return w.spec.AppID
	}
	for _, m := range w.everyone {
		if m.record.AppID != "" {
			return m.record.AppID
		}
	}
	for _, m := range w.everyone {
		if m.seen.Instance != nil && m.seen.Instance.AppID != "" {
			return m.seen.Instance.AppID
		}
	}
	return ""
}
