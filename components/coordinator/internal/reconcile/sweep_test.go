package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// past is a group with a long history: rollout n went to revision rev-n.
func past(now time.Time) *view.View {
	v := &view.View{
		Revisions: map[string]view.Rec[group.RevisionRecord]{}, Rollouts: map[string]view.Rec[operation.Rollout]{},
		Operations: map[string]view.Rec[operation.Operation]{},
		Statuses:   map[string]view.Rec[group.Status]{"pg": {Value: group.Status{Group: "pg", Stable: "rev-1", Rollout: "pg-2-0"}}},
		Slots:      map[string]view.Rec[group.SlotRecord]{"pg-0": {Value: group.SlotRecord{Group: "pg", Slot: "pg-0", Assigned: "rev-3"}}},
		Policies:   map[string]view.Rec[policy.SlotPolicy]{"pg-0": {Value: policy.SlotPolicy{Allowed: []policy.AllowedRevision{{Revision: "rev-4"}}}}},
		Admissions: map[string]view.Rec[policy.Admission]{"pg-0": {Value: policy.Admission{Revision: "rev-5"}}},
	}
	for n := range 60 {
		at := now.Add(-time.Duration(100-n) * time.Hour)
		id, rev := fmt.Sprintf("pg-%d-0", n), fmt.Sprintf("rev-%d", n)
		v.Rollouts[id] = view.Rec[operation.Rollout]{Index: 1, Value: operation.Rollout{ID: id, Group: "pg", To: rev, StartedAt: at}}
		v.Revisions[rev] = view.Rec[group.RevisionRecord]{Index: 1, Value: group.RevisionRecord{Digest: rev, Group: "pg", CreatedAt: at}}
		op := id + ".1.pg-0"
		v.Operations[op] = view.Rec[operation.Operation]{Index: uint64(n), Value: operation.Operation{
			ID: op, Group: "pg", Slot: "pg-0", Rollout: id, Phase: operation.Done, CreatedAt: at, To: rev}}
	}
	return v
}

func keys(ops []store.Op) (out []string) {
	for _, op := range ops {
		out = append(out, op.Key)
	}
	return out
}

func TestSweepKeepsWhatIsNamed(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := &Reconciler{cfg: Config{Now: func() time.Time { return now }}}
	v := past(now)
	rollouts := keys(oldRollouts(v))
	if len(rollouts) != 60-rolloutsKept-1 || slices.Contains(rollouts, "rollouts/pg-59-0") || slices.Contains(rollouts, "rollouts/pg-2-0") {
		t.Errorf("%d rollouts go: %v", len(rollouts), rollouts)
	}
	operations := keys(oldOperations(v))
	if slices.Contains(operations, "operations/pg-59-0.1.pg-0") || slices.Contains(operations, "operations/pg-2-0.1.pg-0") || len(operations) != 60-operationsKept-1 {
		t.Errorf("%d operations go: %v", len(operations), operations)
	}
	if got := r.oldRevisions(v); len(got) != 0 {
		t.Errorf("revisions that rollouts name go: %v", keys(got))
	}
	for id := range v.Rollouts {
		if slices.Contains(rollouts, "rollouts/"+id) {
			delete(v.Rollouts, id)
		}
	}
	for id := range v.Operations {
		if slices.Contains(operations, "operations/"+id) {
			delete(v.Operations, id)
		}
	}
	revisions := keys(r.oldRevisions(v))
	for _, kept := range []string{"rev-1", "rev-2", "rev-3", "rev-4", "rev-5", "rev-59"} {
		if slices.Contains(revisions, "revisions/"+kept) {
			t.Errorf("%s goes though something names it", kept)
		}
	}
	if len(revisions) != 60-rolloutsKept-5 {
		t.Errorf("%d revisions go: %v", len(revisions), revisions)
	}
	v.Bad = []*store.RecordError{{Key: "slots/pg/pg-1"}}
	if got := r.oldRevisions(v); len(got) != 0 {
		t.Errorf("revisions go while a record cannot be read: %v", keys(got))
	}
}
