package rollout

import (
	"slices"

	"cadre.dev/core/operation"
)

// Before is the Revision that a group goes back to from its target: the stable one where the
// target is not proven, otherwise that of the newest rollout which got to its end before.
// history is newest first; failed are Revisions that nobody goes back to by this. "": there
// is none.
func Before(target, stable string, failed []string, history []operation.Rollout) string {
	if stable != "" && stable != target {
		return stable
	}
	for _, r := range history {
		arrived := r.State == operation.Complete || r.State == operation.PartitionReached
		if arrived && r.To != target && !slices.Contains(failed, r.To) {
			return r.To
		}
	}
	return ""
}
