package group

import "slices"

// UpdateAction is the cost of a change for the member that the change reaches, with the names of
// Google's managed instance groups. The zero value is no action.
type UpdateAction string

const (
	// ActionNone: it takes effect without a step; the members do not notice.
	ActionNone UpdateAction = "NONE"
	// ActionRefresh: the agent applies the change while the workload runs on.
	ActionRefresh UpdateAction = "REFRESH"
	// ActionRestart: the CVM boots again, on its disk.
	ActionRestart UpdateAction = "RESTART"
	// ActionReplace: it takes another CVM, with an empty disk. A rollout does that only where minimal_action says so.
	ActionReplace UpdateAction = "REPLACE"
)

// UpdateActions are all of them, from gentle to harsh.
func UpdateActions() []UpdateAction {
	return []UpdateAction{ActionNone, ActionRefresh, ActionRestart, ActionReplace}
}

// Harsher reports that a costs more than b. An unknown action costs least.
func (a UpdateAction) Harsher(b UpdateAction) bool {
	return slices.Index(UpdateActions(), a) > slices.Index(UpdateActions(), b)
}

// Harshest returns the most costly action, and ActionNone for an empty list.
func Harshest(all ...UpdateAction) UpdateAction {
	out := ActionNone
	for _, a := range all {
		if a.Harsher(out) {
			out = a
		}
	}
	return out
}
