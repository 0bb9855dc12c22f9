package rollout

import (
	"fmt"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// envUnapplied: the CVM of m received other env values of its own than wanted (R143). The platform and the Boot say
// nothing about these values. The record of the last call decides.
func (w *world) envUnapplied(m *member) bool {
	if m.seen.Instance == nil || m.terminating || m.want.revision == "" {
		return false
	}
	if _, known := w.contentOf(m.want.revision); !known {
		return false
	}
	return w.spec.OwnEnv(m.ordinal, w.templateOf(m.want.revision)) != m.record.OwnEnv
}

// onlyEnv: m runs its wanted Revision, and only its own env values differ. The step does not move the Slot to a
// Revision. Its hand-over is therefore additional, and not the planned hand-over (R53).
func (w *world) onlyEnv(m *member) bool {
	return w.envUnapplied(m) && m.observed == m.want.revision && !w.givenOther(m) && !w.specDrift(m)
}

// sameEnv: op gave the CVM of m its wanted env values.
func (w *world) sameEnv(m *member, op operation.Operation) bool {
	return op.Call.OwnEnv == w.spec.OwnEnv(m.ordinal, w.templateOf(m.want.revision))
}

// withEnv returns the changes of a Slot with the change of its own env added.
func withEnv(ordinal int, list []group.Change) []group.Change {
	path := fmt.Sprintf("instance[\"%d\"].env", ordinal)
	return append(list[:len(list):len(list)], group.Change{Path: path, Class: group.ClassOf(path)})
}

// ownEnvWord returns the reported state of m's own env; empty: m has none and received none.
func (w *world) ownEnvWord(m *member) string {
	switch {
	case w.envUnapplied(m):
		return group.OwnEnvUnapplied
	case m.record.OwnEnv != "":
		return group.OwnEnvApplied
	}
	return ""
}
