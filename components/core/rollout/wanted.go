package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// decideWanted settles the wanted Revision of each Slot. No other place does: partition, scale-out, removal and an
// operator's override meet here.
func (w *world) decideWanted() {
	w.tally.proven = slices.ContainsFunc(w.members, func(m *member) bool { return m.available && m.observed == w.target })
	for _, m := range w.everyone {
		m.want = w.wanted(m)
	}
}

func (w *world) wanted(m *member) want {
	by, op := w.keptBy(m.ordinal), m.open
	// A replacement has deleted the CVM of a Slot that it gives the target: the Slot keeps its place in the stage.
	renewed := op != nil && op.Kind == operation.Replace && op.To == w.target
	making := m.missing() && !renewed || op != nil && op.Kind == operation.Create
	switch {
	case m.terminating && w.obs.Deletion != nil:
		return want{why: "the group is being deleted"}
	case m.terminating && m.record.Extra:
		return want{why: "the rollout that it was made for is over"}
	case m.terminating:
		return want{why: w.whyTerminating(m)}
	case by == group.KeptByPartition:
		return want{revision: w.whereItIs(m), kept: true, why: fmt.Sprintf("below the partition %d", w.spec.UpdatePolicy.Partition)}
	case by == group.KeptByExclusion:
		return want{revision: w.whereItIs(m), kept: true, why: fmt.Sprintf("instance[\"%d\"].exclude_from_rollout keeps it", m.ordinal)}
	case by == group.KeptByOverride:
		return want{revision: w.whereItIs(m), kept: true, why: w.excludedText(m)}
	case by == group.KeptByPin:
		return w.pinned(m, w.spec.Instance(m.ordinal).PinnedRevision)
	case making && w.stable != w.target && (!w.tally.proven || w.stageNumber() > 0):
		if proven, known := w.lastProven(); known && proven != w.target {
			return want{revision: proven, why: "the " + pick(proven == w.stable, "stable", "last proven") + " revision: " + pick(w.tally.proven, "a stage of the rollout is open", "no slot has proven the target yet")}
		}
	}
	return want{revision: w.target, why: pick(w.target == w.asked, "the spec's target", "the stable revision: the rollout rolls back")}
}

// whyTerminating: the spec leaves the Slot out by name, or its ordinal lies below the first or beyond the last.
func (w *world) whyTerminating(m *member) string {
	if slices.Contains(w.spec.Without, m.slot) {
		return "left out by `without`"
	}
	if m.ordinal < w.spec.FirstOrdinal {
		return fmt.Sprintf("below first_ordinal %d", w.spec.FirstOrdinal)
	}
	return fmt.Sprintf("scaled in to %d %s", w.spec.Replicas, plural(w.spec.Replicas, "slot"))
}

// pinned returns the wanted Revision of a Slot whose spec names a Revision for it. An unrecorded Revision has no
// content to run.
func (w *world) pinned(m *member, pin string) want {
	if _, known := w.rec.Revisions[pin]; !known && pin != w.target {
		return want{revision: w.whereItIs(m), kept: true, why: fmt.Sprintf("instance[\"%d\"].pinned_revision names %.8s, which is not recorded: it stays where it is", m.ordinal, pin)}
	}
	return want{revision: pin, why: fmt.Sprintf("instance[\"%d\"].pinned_revision", m.ordinal)}
}

// whereItIs returns the wanted Revision of a Slot that no rollout updates. It is the assigned Revision, or for a new
// Slot the last proven Revision (R94, R107).
func (w *world) whereItIs(m *member) string {
	if m.record.Assigned != "" {
		return m.record.Assigned
	}
	if proven, known := w.lastProven(); known {
		return proven
	}
	return w.target
}

// lastProven returns the Revision for a new Slot until a member has proven the target. This is the stable Revision. If
// no Slot was last available at stable, it is the Revision of most other Slots. A Slot that is kept back stops stable
// from moving, while all others go on (R6, R108). known requires a recorded content of that Revision.
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
				continue // these members were available at the target and are not available now
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

// mayMakeAt: wanted may have named this Revision for a new Slot. A creation that began at this Revision does not
// restart when the target is proven meanwhile.
func (w *world) mayMakeAt(revision string) bool {
	proven, known := w.lastProven()
	return revision == w.target || revision == w.stable || known && revision == proven
}
