package rollout

import (
	"fmt"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// envUnapplied: the CVM of m was given other values of env of its own than it is to have (R143).
// No platform shows them and no Boot proves them: what counts is the record of the last call.
func (w *world) envUnapplied(m *member) bool {
	if m.seen.Instance == nil || m.condemned || m.want.revision == "" {
		return false
	}
	if _, known := w.contentOf(m.want.revision); !known {
		return false
	}
	return w.spec.OwnEnv(m.ordinal, w.templateOf(m.want.revision)) != m.record.OwnEnv
}

// onlyEnv: m runs what it is to run, but for values of env of its own. Its step is none of the
// rollout's way to a Revision: the hand-over before it is one more, and not the planned one (R53).
func (w *world) onlyEnv(m *member) bool {
	return w.envUnapplied(m) && m.observed == m.want.revision && !w.givenOther(m) && !w.shownOther(m)
}

// sameEnv: op gave the CVM of m the values that it is to have.
func (w *world) sameEnv(m *member, op operation.Operation) bool {
	return op.Call.OwnEnv == w.spec.OwnEnv(m.ordinal, w.templateOf(m.want.revision))
}

// withEnv are changes of a Slot with that of its own env.
func withEnv(ordinal int, list []group.Change) []group.Change {
	path := fmt.Sprintf("instance[\"%d\"].env", ordinal)
	return append(list[:len(list):len(list)], group.Change{Path: path, Class: group.ClassOf(path)})
}

// ownEnvWord is what is told of m's own env; empty: it has none, and was given none.
func (w *world) ownEnvWord(m *member) string {
	switch {
	case w.envUnapplied(m):
		return group.OwnEnvUnapplied
	case m.record.OwnEnv != "":
		return group.OwnEnvApplied
	}
	return ""
}
