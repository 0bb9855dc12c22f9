package rollout

import (
	"slices"

	"cadre.dev/core/operation"
)

// Before is the Revision that a group goes back to from its target: that of the newest rollout which got
// to its end before. The stable one may be older: it stands still while a Slot is kept back, and is what is
// gone back to where no such rollout is kept. history is newest first; failed are Revisions that
// nobody goes back to by this. "": there is none.
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

// Arrived reports that the newest rollout to a Revision got to its end.
func Arrived(revision string, history []operation.Rollout) bool {
	i := slices.IndexFunc(history, func(r operation.Rollout) bool { return r.To == revision })
	return i >= 0 && arrived(history[i])
}

// WentBackFrom is the Revision that a group left for its target, where it ran before, although it
// had not arrived: to go back once more could mean that one or an earlier one. "": the target
// is no way back, or what was left had arrived.
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

func arrived(r operation.Rollout) bool {
	return r.State == operation.Complete || r.State == operation.PartitionReached
}
