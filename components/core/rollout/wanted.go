package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// want is what one Slot is to run, and why.
type want struct {
	// revision is empty where the Slot is to go.
	revision string
	// kept: it stays at what it runs, and no rollout updates it.
	kept bool
	why  string
}

// decideWanted settles what each Slot is to run. This is the one place that does:
// partition, scale-out, removal and an operator's word meet here.
func (w *world) decideWanted() {
	w.tally.proven = w.provenAtTarget()
	for _, m := range w.everyone {
		m.want = w.wanted(m)
	}
}

func (w *world) wanted(m *member) want {
	by, making := w.keptBy(m.ordinal), m.missing() || m.open != nil && m.open.Kind == operation.Create
	switch {
	case m.condemned && w.obs.Deletion != nil:
		return want{why: "the group is being deleted"}
	case m.condemned && m.record.Extra:
		return want{why: "the rollout that it was made for is over"}
	case m.condemned:
		return want{why: w.whyCondemned(m)}
	case by == group.KeptByPartition:
		return want{revision: w.whereItIs(m), kept: true, why: fmt.Sprintf("below the partition %d", w.spec.UpdatePolicy.Partition)}
	case by == group.KeptByExclusion:
		return want{revision: w.whereItIs(m), kept: true, why: fmt.Sprintf("instance[\"%d\"].exclude_from_rollout keeps it", m.ordinal)}
	case by == group.KeptByOverride:
		return want{revision: w.whereItIs(m), kept: true, why: w.excludedText(m)}
	case by == group.KeptByPin:
		return w.pinned(m, w.spec.Instance(m.ordinal).PinnedRevision)
	case making && w.stable != w.target && !w.tally.proven:
		if proven, known := w.lastProven(); known && proven != w.target {
			return want{revision: proven, why: "the " + pick(proven == w.stable, "stable", "last proven") + " revision: no slot has proven the target yet"}
		}
	}
	return want{revision: w.target, why: "the spec's target"}
}

// whyCondemned: the Slot is left out by name, or lies beyond the last one.
func (w *world) whyCondemned(m *member) string {
	if slices.Contains(w.spec.Without, m.slot) {
		return "left out by `without`"
	}
	return fmt.Sprintf("scaled in to %d %s", w.spec.Replicas, plural(w.spec.Replicas, "slot"))
}

// pinned is what a Slot is to run whose spec names a Revision for it. One that is not recorded
// has no content to run.
func (w *world) pinned(m *member, pin string) want {
	if _, known := w.rec.Revisions[pin]; !known && pin != w.target {
		return want{revision: w.whereItIs(m), kept: true, why: fmt.Sprintf("instance[\"%d\"].pinned_revision names %.8s, which is not recorded: it stays where it is", m.ordinal, pin)}
	}
	return want{revision: pin, why: fmt.Sprintf("instance[\"%d\"].pinned_revision", m.ordinal)}
}

// whereItIs is what a Slot that no rollout updates is to run: what it was assigned, for a
// new one the last proven Revision (R94, R107).
func (w *world) whereItIs(m *member) string {
	if m.record.Assigned != "" {
		return m.record.Assigned
	}
	if proven, known := w.lastProven(); known {
		return proven
	}
	return w.target
}

// lastProven is the Revision for a new Slot while none has proven the target: the stable one, and where no
// Slot was last available at that, what most of the others were. A Slot that is kept back lets stable stand
// still, while all others go on (R6, R108). known is false where there is none, or its content is not recorded.
func (w *world) lastProven() (revision string, known bool) {
	if w.stable == "" {
		return "", false
	}
	revision = w.found.proven.of(func() string {
		at, best := map[string]int{}, w.stable
		for _, m := range w.members {
			if was := m.record.WasAvailableAt; was == w.stable {
				return w.stable
			} else if _, recorded := w.rec.Revisions[was]; recorded && !m.extra && w.keptBy(m.ordinal) == "" {
				at[was]++
			}
		}
		for one, n := range at {
			if one == w.target && len(at) > 1 {
				continue // who was available there is not any more
			}
			if more := cmp.Or(cmp.Compare(n, at[best]), cmp.Compare(best, one)); more > 0 {
				best = one
			}
		}
		return best
	})
	_, known = w.rec.Revisions[revision]
	return revision, known
}

// mayMakeAt: what wanted may have said of a new Slot. What was begun so is not begun anew where the target is
// proven meanwhile.
func (w *world) mayMakeAt(revision string) bool {
	proven, known := w.lastProven()
	return revision == w.target || revision == w.stable || known && revision == proven
}

// provenAtTarget: one Slot is available there.
func (w *world) provenAtTarget() bool {
	for _, m := range w.members {
		if m.available && m.observed == w.target {
			return true
		}
	}
	return false
}

// templateOf is the content of a Revision: the target's is the spec's, recorded or not.
func (w *world) templateOf(revision string) group.Template {
	if revision == w.target {
		return w.spec.Template
	}
	return w.rec.Revisions[revision].Template
}

// shapeOf is what a CVM at a Revision is to be beside what it runs.
func (w *world) shapeOf(revision string) operation.Shape {
	t := w.templateOf(revision)
	return operation.Shape{InstanceType: t.InstanceType, OSImage: t.OSImage, DiskGB: t.DiskGB}
}
