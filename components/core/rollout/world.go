package rollout

import (
	"cmp"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
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

	// members are the desired Slots by ordinal; condemned those to be scaled in,
	// highest first.
	members   []*member
	condemned []*member
	view      view
	appID     string
}

// member is one Slot of the pass.
type member struct {
	slot    string
	ordinal int
	record  group.SlotRecord
	seen    SlotObservation
	// report is the fresh report of the admitted Boot, or nil (R11).
	report *Report
	// open is the Operation in progress; past the ended ones of this rollout, oldest first.
	open *operation.Operation
	past []operation.Operation
	// observed is the attested Revision, or empty (R4).
	observed  string
	condemned bool
	// ready is R7 without min_ready; available adds min_ready and "not in a step".
	ready     bool
	reason    string
	available bool
}

func newWorld(spec group.Spec, rec Records, obs Observation, now time.Time, t Timing) *world {
	w := &world{spec: spec, rec: rec, obs: obs, now: now, t: t.orDefault()}
	w.target = spec.Revision()
	w.stable = rec.Status.Stable
	w.generation = w.nextGeneration()
	w.joinSlots()
	w.joinOperations()
	w.appID = w.knownAppID()
	for _, m := range w.all() {
		w.judge(m)
	}
	w.view = w.look()
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

// joinSlots makes one member per desired ordinal and per condemned Slot that has
// a record or a CVM.
func (w *world) joinSlots() {
	byOrdinal := make(map[int]*member)
	at := func(ordinal int) *member {
		if m := byOrdinal[ordinal]; m != nil {
			return m
		}
		slot := group.SlotName(w.spec.Name, ordinal)
		m := &member{slot: slot, ordinal: ordinal, condemned: ordinal >= w.spec.Replicas}
		m.record = group.SlotRecord{Group: w.spec.Name, Slot: slot, Ordinal: ordinal}
		byOrdinal[ordinal] = m
		return m
	}
	for i := range w.spec.Replicas {
		at(i)
	}
	for _, r := range w.rec.Slots {
		if r.Group == w.spec.Name || r.Group == "" {
			at(r.Ordinal).record = r
		}
	}
	for _, o := range w.obs.Slots {
		if o.Ordinal < w.spec.Replicas || byOrdinal[o.Ordinal] != nil || o.Instance != nil {
			at(o.Ordinal).seen = o
		}
	}
	for _, m := range byOrdinal {
		if m.condemned {
			w.condemned = append(w.condemned, m)
		} else {
			w.members = append(w.members, m)
		}
	}
	slices.SortFunc(w.members, func(a, b *member) int { return cmp.Compare(a.ordinal, b.ordinal) })
	slices.SortFunc(w.condemned, func(a, b *member) int { return cmp.Compare(b.ordinal, a.ordinal) })
}

func (w *world) joinOperations() {
	ops := slices.Clone(w.rec.Operations)
	slices.SortFunc(ops, func(a, b operation.Operation) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Order, b.Order), cmp.Compare(a.ID, b.ID))
	})
	for _, m := range w.all() {
		for i := range ops {
			op := ops[i]
			switch {
			case op.Slot != m.slot:
			case !op.Phase.Ended():
				m.open = &op
			case w.rec.Rollout != nil && op.Rollout == w.rec.Rollout.ID:
				m.past = append(m.past, op)
			}
		}
	}
}

// all are the desired Slots, then the condemned ones.
func (w *world) all() []*member { return slices.Concat(w.members, w.condemned) }

// inScope: the rollout may update it (R22, R41).
func (w *world) inScope(m *member) bool {
	return !m.condemned && m.ordinal >= w.spec.UpdatePolicy.Partition
}

// outdated: in scope and not proven to run the target, or given something else
// since the proof: a Slot that boots another Revision is not at the one that its
// last admission showed.
func (w *world) outdated(m *member) bool {
	switch {
	case !w.inScope(m):
		return false
	case m.observed == "":
		return !w.givenTarget(m)
	}
	return m.observed != w.target || w.givenOther(m)
}

// givenTarget: nothing is proven, but as far as is known the CVM was made for or
// moved to the target. Doing that again would be the same thing again (R39).
func (w *world) givenTarget(m *member) bool {
	if m.open != nil && acted(m.open) {
		return m.open.To == w.target
	}
	wanted, i := w.rec.Revisions[w.target].ComposeHash, m.seen.Instance
	if i != nil && i.ComposeHash != "" && wanted != "" {
		return i.ComposeHash == wanted
	}
	last := m.last()
	return i != nil && m.record.Assigned == w.target && (last == nil || last.Phase != operation.Aborted)
}

func (w *world) givenOther(m *member) bool {
	if m.open != nil && acted(m.open) && m.open.Kind != operation.Restart {
		return m.open.To != w.target
	}
	wanted, i := w.rec.Revisions[w.target].ComposeHash, m.seen.Instance
	return !m.ready && i != nil && !i.InProgress && i.ComposeHash != "" && wanted != "" && i.ComposeHash != wanted
}

// acted: the open Operation's call was made and its effect is decided.
func acted(op *operation.Operation) bool {
	switch op.Phase {
	case operation.Booting, operation.Joining, operation.Settling:
		return true
	case operation.Recorded, operation.Draining, operation.Drained, operation.Acting,
		operation.Done, operation.Aborted, operation.Failed, operation.Superseded, "":
	}
	return false
}

// missing: no CVM fills the Slot and none ever did.
func (m *member) missing() bool {
	return m.seen.Instance == nil && m.record.InstanceID == "" && m.record.VMUUID == ""
}

// vanished: the CVM that was bound to the Slot is not listed any more.
func (m *member) vanished() bool { return m.seen.Instance == nil && !m.missing() }

// unavailable is membership in U (R20, R23). A Slot that never had a CVM is
// provisioning until its Operation is recorded (R29).
func (m *member) unavailable() bool {
	if m.open != nil {
		return true
	}
	return !m.available && !m.missing()
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
	for _, m := range w.all() {
		if m.record.AppID != "" {
			return m.record.AppID
		}
	}
	for _, m := range w.all() {
		if m.seen.Instance != nil && m.seen.Instance.AppID != "" {
			return m.seen.Instance.AppID
		}
	}
	return ""
}
