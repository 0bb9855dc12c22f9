package rollout

import (
	"slices"

	"cadre.dev/core/operation"
)

// Before returns the Revision that a group returns to from its target: the Revision of the newest completed rollout
// before. The stable Revision may be older, because it stands still while a Slot is kept back. Stable is used when no
// such rollout is recorded. history is newest first. Before skips the Revisions in failed, except stable. "": no such
// Revision exists.
func Before(target, stable string, failed []string, history []operation.Rollout) string {
	for _, r := range history {
		if arrived(r) && r.To != target && (r.To == stable || !slices.Contains(failed, r.To)) {
			return r.To
		}
	}
	if stable != target {
		return stable
	}
	return ""
}

// Arrived reports that the newest rollout to a Revision completed.
func Arrived(revision string, history []operation.Rollout) bool {
	i := slices.IndexFunc(history, func(r operation.Rollout) bool { return r.To == revision })
	return i >= 0 && arrived(history[i])
}

// WentBackFrom returns the Revision that a group left for its target, where the target ran before and the left
// Revision had not arrived. Another undo could mean that Revision or an earlier one. "": the target is no undo, or the
// left Revision had arrived.
func WentBackFrom(target string, history []operation.Rollout) string {
	from := ""
	for _, r := range history {
		switch {
		case r.To == target && from != "":
			return from
		case r.To == target:
		case from == "" && arrived(r):
			return ""
		case from == "":
			from = r.To
		}
	}
	return ""
}

// OfPart reports that a Revision from Before may belong to a canary. The newest completed rollout to it kept Slots
// back, and most Slots that would return to it did not run it. ran holds each Slot's Revision before the target, "" if
// unknown: the Revision is new to that Slot. The stable Revision ran on all Slots.
func OfPart(revision, stable string, ran []string, history []operation.Rollout) bool {
	i := slices.IndexFunc(history, func(r operation.Rollout) bool { return r.To == revision && arrived(r) })
	if revision == stable || i < 0 || history[i].State != operation.PartitionReached {
		return false
	}
	did := 0
	for _, one := range ran {
		if one == revision {
			did++
		}
	}
	return 2*did <= len(ran)
}

func arrived(r operation.Rollout) bool {
	return r.State == operation.Complete || r.State == operation.PartitionReached
}
