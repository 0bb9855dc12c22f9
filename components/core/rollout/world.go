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

// world is the input of one pass, joined by Slot and put in order: everything
// after it sees the same order, whatever order the input had (R1).
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
	// judged are the Revisions that the policy was asked about in this pass.
	judged map[string]policy.Decision
	// moves are the differences between Revisions that were asked for in this pass.
	moves map[move][]group.Change
	// seenBy is what is seen of the Slots, by ordinal; built on demand.
	seenBy map[int]*SlotObservation

	// members are the desired Slots by ordinal; condemned those to be removed,
	// highest first; everyone is both.
	members   []*member
	condemned []*member
	everyone  []*member
	bySlot    map[string]*member
	tally     tally
	view      view
	// founders are those that the workload's set is founded with, while that may go on.
	founders []string
	appID    string
	// retry is the operator's word that a failed rollout, or a refused step, is to go on.
	retry *Request
	found found
}

// found is what is asked for many members and worked out once for all of them. What rests on the
// Operations of the rollout is found anew when those change (retally).
type found struct {
	// rungs are what heals a member.
	rungs map[*member]healing
	// bucket is the limiter's, of the group.
	bucket once[bucket]
	// leaders counts, by Slot, the members that live and name it as their leader.
	leaders once[map[string]int]
	// condemned is the one that is removed first, givenUp whose disks somebody gave up.
	condemned once[*member]
	givenUp   once[map[string]bool]
	// waits: the rollout waits for a word of its workload or of a person alone.
	waits once[bool]
	// proven is what a new Slot is made at while none has proven the target.
	proven once[string]
}

// once is worked out when it is asked for first.
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
	// wasAvailableAt is what the record said before this pass.
	wasAvailableAt string
	// boundBefore is the CVM that the record named before this pass.
	boundBefore string
	seen        SlotObservation
	// want is what the Slot is to run.
	want want
	// report is the fresh report of the admitted Boot, or nil (R11).
	report *Report
	// speaks: its agent was heard within the time in which one that lives reports.
	speaks bool
	// cut: its agent was heard lately, the connection ended, and what the platform says was asked
	// for after that. It is a reason to believe the platform, and none to think the agent dead.
	cut bool
	// named: its own word is missing, and those who follow still name it as their leader.
	named bool
	// request is what an operator asked for about the Slot, or nil.
	request *Request
	// open is the Operation in progress.
	open *operation.Operation
	history
	// policed is the Instance that the Slot's policy names; "": none.
	policed string
	// moved is the one of superseded that told the CVM to boot something else than what is
	// admitted, and no new Boot showed yet; nil: there is none.
	moved *operation.Operation
	// condition is what all evidence together says of it.
	condition condition
	// observed is the attested Revision, or empty (R4).
	observed  string
	condemned bool
	// extra: it is there for the time of a rollout, beyond the group's size.
	extra bool
	standing
}

// history is what the recorded Operations of a Slot say about it.
type history struct {
	// past are the ended Operations of this rollout, oldest first.
	past []operation.Operation
	// makers are the Operations, open or ended and of whatever rollout, whose calls may
	// have made a CVM of the Slot's name.
	makers []*operation.Operation
	// superseded are the re-targeted Operations of the Slot, of whatever rollout, whose call
	// was made; followed are the ids of those that a later call came after.
	superseded []*operation.Operation
	followed   map[string]bool
	// drains are the ended Operations that were to take it out of service, of whatever rollout.
	drains []operation.Operation
	// healed are the ended Operations that healed it, of whatever rollout.
	healed []*operation.Operation
	// removal is the deletion that was done of the CVM that the Slot is bound to, or nil.
	removal *operation.Operation
}

// standing is how a member counts in its group.
type standing struct {
	// ready is R7 without min_ready; available adds min_ready and "not in a step". reason is what is missing.
	ready     bool
	reason    string
	available bool
	// fell: it was ready until this pass. settled: it serves, and did for min_ready. flaps: it serves,
	// and does not count yet since it was ready and not by turns (R9).
	fell, settled, flaps bool
	// unsure: it is in U, and may serve all the same: it is silent or unhealthy, and waits for a repair, or it stands
	// between two parts of its step, which is between alone.
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
	w.dropEnded(w.obs.overrides()) // who the members are depends on them
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

// desired is the set of ordinals that the group is to have, in order: the first ones, and
// for the time of a rollout some more.
func (w *world) desired() []int {
	if w.obs.Deletion != nil {
		return nil
	}
	return append(w.spec.Ordinals(), w.extras()...)
}

// joinSlots makes one member per desired ordinal and per condemned Slot that has
// a record or a CVM.
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
		m := &member{slot: slot, ordinal: ordinal, condemned: !wanted[ordinal]}
		m.record = group.SlotRecord{Group: w.spec.Name, Slot: slot, Ordinal: ordinal}
		m.extra = wanted[ordinal] && !w.spec.HasOrdinal(ordinal)
		m.record.Extra = m.extra
		byOrdinal[ordinal], w.bySlot[slot] = m, m
		if m.condemned {
			w.condemned = append(w.condemned, m)
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
	slices.SortFunc(w.condemned, func(a, b *member) int { return cmp.Compare(b.ordinal, a.ordinal) })
	w.everyone = slices.Concat(w.members, w.condemned)
	for _, m := range w.members {
		m.record.Extra = m.extra // one that the group grew over stays
	}
}

// ofGroup: the record is of this group's Slot.
func (w *world) ofGroup(r *group.SlotRecord) bool { return r.Group == w.spec.Name || r.Group == "" }

// recorded orders Operations as they were recorded: by Term and number, never by a clock, since
// leaders' clocks differ. Each rollout counts anew, also those that are none of its steps, whose ids
// begin as its steps' do, and those that were asked for by name, whose ids do not. What belongs to
// the current one came after all others.
func (w *world) recorded(a, b operation.Operation) int {
	return cmp.Or(cmp.Compare(btoi(w.began(&a)), btoi(w.began(&b))), cmp.Compare(a.Term, b.Term), cmp.Compare(a.Order, b.Order), cmp.Compare(a.ID, b.ID))
}

// began: op was recorded while the current rollout was.
func (w *world) began(op *operation.Operation) bool {
	r := w.rec.Rollout
	return r != nil && (op.Rollout == r.ID || strings.HasPrefix(op.ID, r.ID+"."))
}

// joinOperations gives each member its Operations by the order in which they were recorded.
func (w *world) joinOperations() {
	ops := slices.Clone(w.rec.Operations)
	slices.SortFunc(ops, w.recorded)
	for i := range ops {
		op := &ops[i]
		m := w.bySlot[op.Slot]
		if m == nil {
			continue
		}
		m.joinSuperseded(op)
		// Those of other rollouts have numbers of their own, and no order among these.
		ofRollout := w.rec.Rollout != nil && op.Rollout == w.rec.Rollout.ID
		if !op.Phase.Ended() {
			m.open = op
		} else if ofRollout && op.Order > w.rec.Rollout.Forgiven {
			m.past = append(m.past, *op)
		}
		if (ofRollout || !op.Phase.Ended()) && makes(op) {
			m.makers = append(m.makers, op)
		}
		// Of whatever rollout: the one that took it away was overtaken where the Slot is wanted again.
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
func (w *world) inScope(m *member) bool { return !m.condemned && !m.want.kept }

// outdated: in scope and not proven to run what it is to run, or given something else
// since the proof: a Slot that boots another Revision is not at the one that its
// last admission showed.
func (w *world) outdated(m *member) bool {
	switch {
	case !w.inScope(m):
		return false
	case m.observed == "":
		// An update is what waits for a person who binds what carries its name, or lets run again what it was given.
		return m.unadopted() || !w.givenTarget(m) || !w.mayRun(m.want.revision)
	}
	return m.observed != m.want.revision || w.givenOther(m) || w.shownOther(m) || w.envUnapplied(m)
}

// shownOther: the platform shows another size or image than wanted, which no Boot proves:
// of two Revisions that measure the same, the admission names either. A step under way
// looks at that itself, once what it asked for is accepted: before that it is what the step is for.
func (w *world) shownOther(m *member) bool {
	i := m.seen.Instance
	return (m.open == nil || m.open.Kind == operation.Update && !m.open.Decided()) && i != nil && !w.platformWorks(m) && !i.Shape.Shows(w.shapeOf(m.want.revision))
}

// givenTarget: nothing is proven, but as far as is known the CVM was made for or
// moved to the target. Doing that again would be the same thing again (R39).
func (w *world) givenTarget(m *member) bool {
	if m.open != nil && m.open.Decided() {
		return m.open.To == m.want.revision
	}
	wanted, i := w.rec.Revisions[m.want.revision].ComposeHash, m.seen.Instance
	if i != nil && i.ComposeHash != "" && wanted != "" {
		// What the two share is no word for the one that it was never told to boot, where it is down: the spec that
		// corrects its checks say starts it (R39).
		assigned := m.record.Assigned
		if m.open != nil {
			assigned = m.open.From // its step has told it nothing yet
		}
		// Nor where it shows what it was not given: a call of before made it so, and the Slot's policy lets
		// in nothing but what is assigned.
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
	if m.moved != nil && (m.open == nil || !m.open.Decided()) {
		return m.moved.To != m.want.revision
	}
	wanted, i := w.rec.Revisions[m.want.revision].ComposeHash, m.seen.Instance
	return !m.ready && i != nil && !w.platformWorks(m) && i.ComposeHash != "" && wanted != "" && i.ComposeHash != wanted && !w.adoptedAs(m)
}

// adoptedAs: the CVM was adopted as the Revision that it is to run, with a document that another client wrote. Its hash
// is that document's, which the Slot's policy allows: to give it Cadre's own would be a restart for nothing.
func (w *world) adoptedAs(m *member) bool {
	i := m.seen.Instance
	return i != nil && slices.ContainsFunc(w.rec.Policies[m.slot].Allowed, func(a policy.AllowedRevision) bool {
		return a.Revision == m.want.revision && a.ComposeHash == i.ComposeHash
	})
}

// missing: no CVM fills the Slot and none ever did.
func (m *member) missing() bool {
	return m.seen.Instance == nil && m.record.InstanceID == "" && m.record.VMUUID == ""
}

// vanished: the CVM that was bound to the Slot is not listed any more.
func (m *member) vanished() bool { return m.seen.Instance == nil && !m.missing() }

// inService: it is ready and in no step, available or not yet: what would take it away is felt.
func (m *member) inService() bool { return m.ready && m.open == nil }

// unavailable is membership in U (R20, R23). A Slot that never had a CVM is
// provisioning until its Operation is recorded (R29); one that had one is missed.
func (m *member) unavailable() bool {
	if m.open != nil {
		return true
	}
	return !m.available && (!m.missing() || len(m.record.Lineage) > 0)
}

// down: in U, and not only because it counts min_ready. One that serves again while
// it counts is spared like an available one.
func (m *member) down() bool { return m.unavailable() && !m.ready }

// last is the newest ended Operation of the rollout, or nil.
func (m *member) last() *operation.Operation {
	if len(m.past) == 0 {
		return nil
	}
	return &m.past[len(m.past)-1]
}

// knownAppID is the app of the group, once anything tells it.
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
