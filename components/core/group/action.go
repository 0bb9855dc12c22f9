package group

import "slices"

// UpdateAction is what a change costs the member that it reaches, in the words of Google's
// managed instance groups. The zero value is no action.
type UpdateAction string

const (
	// ActionNone: it takes effect without a step; the members do not notice.
	ActionNone UpdateAction = "NONE"
	// ActionRefresh: the agent applies it beside the running workload.
	ActionRefresh UpdateAction = "REFRESH"
	// ActionRestart: the CVM boots again, on its disk.
	ActionRestart UpdateAction = "RESTART"
	// ActionReplace: it takes another CVM, with an empty disk. No rollout does that.
	ActionReplace UpdateAction = "REPLACE"
)

// UpdateActions are all of them, from gentle to harsh.
func UpdateActions() []UpdateAction {
	return []UpdateAction{ActionNone, ActionRefresh, ActionRestart, ActionReplace}
}

// Harsher reports that a costs more than b. What is no action is the gentlest.
func (a UpdateAction) Harsher(b UpdateAction) bool {
	return slices.Index(UpdateActions(), a) > slices.Index(UpdateActions(), b)
}

// Harshest is the one that costs most, ActionNone of none.
func Harshest(all ...UpdateAction) UpdateAction {
	out := ActionNone
	for _, a := range all {
		if a.Harsher(out) {
			out = a
		}
	}
	return out
}
