package rollout

import (
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// onlyEnv: m runs its wanted Revision, and only its own env values differ. The step does not move the Slot to a
// Revision. Its hand-over is therefore additional, and not the planned hand-over (R53).
func (w *world) onlyEnv(m *member) bool {
	return w.envUnapplied(m) && m.observed == m.want.revision && !w.givenOther(m) && !w.specDrift(m)
}

// sameEnv: op gave the CVM of m its wanted env values.
func (w *world) sameEnv(m *member, op operation.Operation) bool {
	return op.Call.OwnEnv == w.spec.OwnEnv(m.ordinal, w.templateOf(m.want.revision))
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
