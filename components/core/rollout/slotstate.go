package rollout

import (
	"cmp"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// stepWord returns the state for the open step of m in one word.
func (m *member) stepWord() group.SlotState {
	if m.notDrained() {
		return group.SlotNotDrained
	}
	return phaseWord(*m.open)
}

func phaseWord(op operation.Operation) group.SlotState {
	switch op.Phase {
	case operation.Draining:
		return group.SlotDraining
	case operation.Drained:
		if op.StaysStopped() {
			return group.SlotStopped
		}
		if op.Way.Refreshes() {
			return group.SlotRefreshing // the member serves all the time
		}
		if op.Kind == operation.Create {
			return group.SlotCreating // no CVM exists that could be drained
		}
		return group.SlotDrained
	case operation.Acting:
		if op.Kind == operation.Stop && op.Call.Part == operation.PartStop {
			return group.SlotStopping
		}
		return map[operation.Kind]group.SlotState{
			operation.Create: group.SlotCreating, operation.Update: group.SlotUpdating, operation.Restart: group.SlotRestarting, operation.Delete: group.SlotDeleting,
			operation.Replace: group.SlotReplacing, operation.Stop: group.SlotRestarting,
		}[op.Kind]
	case operation.Booting:
		if op.Kind == operation.Delete {
			return group.SlotDeleting
		}
		if op.Way.Refreshes() {
			return group.SlotRefreshing
		}
		if op.Way.Service != "" {
			return group.SlotRestarting
		}
		return group.SlotBooting
	case operation.Joining:
		return group.SlotJoining
	case operation.Settling:
		return group.SlotSettling
	case operation.Done, operation.Aborted, operation.Failed, "":
	}
	return group.SlotUnavailable
}

func pick(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

// whyNot is the reason why m is not available.
func (m *member) whyNot() string {
	switch {
	case m.open != nil:
		return string(m.stepWord()) + ": " + cmp.Or(m.open.Reason, "in a step")
	case m.missing():
		return "not created yet"
	}
	return cmp.Or(m.reason, "about to begin a step")
}
