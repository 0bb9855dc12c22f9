package rollout_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout/rollouttest"
)

// The sizes of the records of a group of n Slots with many faults. They cover the status without its Instances, and
// the longest text about one Slot, one Action and one rollout.
func told(t *testing.T, kind string, n int) map[string]int {
	t.Helper()
	w := rollouttest.Busy(n, kind)
	for i := range n {
		w.Seen.Orphans = append(w.Seen.Orphans, fmt.Sprintf("c-web-%d (vm-%d)", i, i))
		w.Records.Problems = append(w.Records.Problems, policy.Problem{Reason: policy.ProblemUnreadable, Message: fmt.Sprintf("record %d", i)})
		if i%2 == 0 && i < len(w.Seen.Slots) {
			w.Seen.Slots[i].Report = nil // half of the Slots do not report
		}
	}
	p := w.Decide()
	size := func(v any) int {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	out := map[string]int{}
	for _, one := range p.Status.Instances {
		out["instance"] = max(out["instance"], size(one))
	}
	status := p.Status
	status.Instances = nil
	out["status"] = size(status)
	for _, a := range p.Actions {
		out["holds"] = max(out["holds"], size(a.Holds))
		out["quorum"] = max(out["quorum"], len(a.Before.Quorum))
	}
	if p.Rollout != nil {
		out["rollout"] = size(p.Rollout)
	}
	return out
}

// TestNoMessageGrowsWithTheGroup: only the digits of its numbers make a message longer.
func TestNoMessageGrowsWithTheGroup(t *testing.T) {
	const digits = 200
	for _, kind := range []string{group.WorkloadNone, group.WorkloadPatroni, group.WorkloadEtcd} {
		small, large := told(t, kind, 100), told(t, kind, 2000)
		for what, size := range large {
			if size > small[what]+digits {
				t.Errorf("%s: %s has %d bytes in a group of 2000, %d in one of 100", kind, what, size, small[what])
			}
		}
	}
}
