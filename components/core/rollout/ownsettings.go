package rollout

import (
	"fmt"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// A Slot's own env values and its own size need a step of the Slot, at its present Revision. No Boot proves either. The
// record of the last call names the env values; the platform shows the size.

// envUnapplied: the CVM of m received other env values of its own than wanted (R143). The platform and the Boot say
// nothing about these values. The record of the last call decides.
func (w *world) envUnapplied(m *member) bool {
	if m.seen.Instance == nil || m.terminating || m.want.revision == "" {
		return false
	}
	if len(w.spec.Instances) == 0 && m.record.OwnEnv == "" {
		return false // no Slot has env values of its own: most groups, and each member asks several times
	}
	if _, known := w.contentOf(m.want.revision); !known {
		return false
	}
	return w.spec.OwnEnv(m.ordinal, w.templateOf(m.want.revision)) != m.record.OwnEnv
}

// sizeUnapplied: the CVM of a Slot has its assigned Revision to, and the platform shows another size than wanted.
func (w *world) sizeUnapplied(r *group.SlotRecord, i *Instance, to string) bool {
	if i == nil || r.Assigned != to {
		return false
	}
	wanted, _ := w.shapeOf(r.Ordinal, to)
	return i.Shape.SizeDiffers(wanted)
}

// unapplied returns the changes that bring the CVM of m to the Slot's own settings.
func (w *world) unapplied(m *member) []group.Change {
	return w.ownChanges(m.ordinal, m.want.revision, w.envUnapplied(m), !m.terminating && w.sizeUnapplied(&m.record, m.seen.Instance, m.want.revision))
}

// ownChanges returns the changes of a Slot's own env and size at a Revision. A Slot without a size of its own goes back
// to that of the template.
func (w *world) ownChanges(ordinal int, revision string, env, size bool) (out []group.Change) {
	if env {
		out = append(out, group.Change{Path: ownPath(ordinal, "env")})
	}
	if size {
		wanted, own := w.shapeOf(ordinal, revision)
		path := "template.instance_type"
		if own != "" {
			path = ownPath(ordinal, "instance_type")
		}
		out = append(out, group.Change{Path: path, Is: wanted.InstanceType})
	}
	for i := range out {
		out[i].Class = group.ClassOf(out[i].Path)
	}
	return out
}

// ownPath is the path of a setting of one Slot.
func ownPath(ordinal int, field string) string {
	return fmt.Sprintf("instance[\"%d\"].%s", ordinal, field)
}

// onlyOwn: m runs its wanted Revision, and only its own env values or its size differ. The step does not move the Slot
// to a Revision. Its hand-over is therefore additional, and not the planned hand-over (R53).
func (w *world) onlyOwn(m *member) bool {
	if len(w.unapplied(m)) == 0 || m.observed != m.want.revision || w.givenOther(m) {
		return false
	}
	wanted, _ := w.shapeOf(m.ordinal, m.want.revision)
	if m.record.Assigned == m.want.revision {
		wanted.InstanceType = "" // a Revision that measures the same is no reason for the difference
	}
	return m.seen.Instance.Shape.Shows(wanted)
}

// ownStep: the last step that gave the CVM of m content changed the Slot's own settings alone. A later failure of m is no
// evidence about the Revision.
func (w *world) ownStep(m *member) bool {
	var last *operation.Operation
	for _, op := range w.rec.Operations {
		if op.Slot == m.slot && op.Call.Shapes() && (last == nil || w.recorded(op, *last) > 0) {
			last = &op
		}
	}
	return last != nil && last.Way.Mode == operation.ModeOwn
}

// firstVerdict returns the first verdict about a member. A verdict that is no evidence about the Revision, because the
// member's own settings changed last, must not hide that of another member.
func (w *world) firstVerdict(about func(*member) *operation.Verdict) (own *operation.Verdict) {
	for _, m := range w.members {
		switch v := about(m); {
		case v == nil:
		case !w.ownStep(m):
			return v
		case own == nil:
			own = v
		}
	}
	return own
}

// ownWhy names the settings that a step of m gives.
func (w *world) ownWhy(m *member) string {
	var paths []string
	for _, c := range w.unapplied(m) {
		paths = append(paths, c.Path)
	}
	return strings.Join(paths, ", ")
}

// sameOwn: op gave the CVM of m its wanted env values and size.
func (w *world) sameOwn(m *member, op operation.Operation) bool {
	t := w.templateOf(m.want.revision)
	return op.Call.OwnEnv == w.spec.OwnEnv(m.ordinal, t) && op.Call.OwnInstanceType == w.spec.OwnInstanceType(m.ordinal, t)
}

// ownEnvWord returns the reported state of m's own env; empty: m has none and received none.
func (w *world) ownEnvWord(m *member) string {
	switch {
	case w.envUnapplied(m):
		return group.OwnUnapplied
	case m.record.OwnEnv != "":
		return group.OwnApplied
	}
	return ""
}

// ownSizeWord returns the reported state of m's own size; empty: m has none, and the platform shows the Revision's.
func (w *world) ownSizeWord(m *member) string {
	i := m.seen.Instance
	if i == nil || m.terminating {
		return ""
	}
	wanted, own := w.shapeOf(m.ordinal, m.want.revision)
	switch differs := i.Shape.SizeDiffers(wanted); {
	case differs && (own != "" || m.record.Assigned == m.want.revision):
		return group.OwnUnapplied
	case own != "" && i.Shape.InstanceType != "":
		return group.OwnApplied
	}
	return "" // a platform that shows no size gets no step for one
}

// RefusedSize is the key in Observation.Refused of a size of one Slot: its own, or the template's that it goes back to.
func RefusedSize(slot, instanceType string) string { return slot + " " + instanceType }

// refusedStep returns why the platform would refuse a step of a Slot to a Revision: for the Revision itself, or for the
// Slot's wanted size; "": it is not known to refuse the step.
func (w *world) refusedStep(slot string, ordinal int, to string) string {
	if reason := w.obs.Refused[to]; reason != "" || len(w.obs.Refused) == 0 {
		return reason
	}
	wanted, _ := w.shapeOf(ordinal, to)
	return w.obs.Refused[RefusedSize(slot, wanted.InstanceType)]
}
