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

// OfPart reports that a Revision which Before gave may be that of a canary: the newest rollout to it that got
// to its end kept Slots back, and most of those that would go there did not run it. ran is what each of them
// ran before the target, "" where nobody knows: to go there is new to it. The stable one ran on all.
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
