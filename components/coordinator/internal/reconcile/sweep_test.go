package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/reports"
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
		v.Rollouts[id] = view.Rec[operation.Rollout]{Index: 1, Value: operation.Rollout{ID: id, Group: "pg", To: rev, Generation: uint64(n), StartedAt: at}}
		v.Revisions[rev] = view.Rec[group.RevisionRecord]{Index: 1, Value: group.RevisionRecord{Digest: rev, Group: "pg", CreatedAt: at}}
		op := id + ".1.pg-0"
		v.Operations[op] = view.Rec[operation.Operation]{Index: uint64(n), Value: operation.Operation{
			ID: op, Group: "pg", Slot: "pg-0", Rollout: id, Phase: operation.Done, Times: operation.Times{Created: at}, To: rev}}
	}
	return v
}

func keys(ops []store.Op) (out []string) {
	for _, op := range ops {
		out = append(out, op.Key)
	}
	return out
}

func TestSweepKeepsNamedRecords(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := &Reconciler{cfg: Config{Now: func() time.Time { return now }}}
	v := past(now)
	rollouts := keys(oldRollouts(v))
	if len(rollouts) != 60-rolloutsKept-1 || slices.Contains(rollouts, "rollouts/pg-59-0") || slices.Contains(rollouts, "rollouts/pg-2-0") {
		t.Errorf("%d rollouts go: %v", len(rollouts), rollouts)
	}
	operations := keys(r.oldOperations(v))
	if slices.Contains(operations, "operations/pg-59-0.1.pg-0") || len(operations) != 60-8 {
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

// restarted is a Slot of a running rollout that was restarted n times, and two removed Slots. One
// of these was removed long ago.
func restarted(now time.Time, n int) *view.View {
	v := &view.View{
		Rollouts:   map[string]view.Rec[operation.Rollout]{"pg-7-a": {Value: operation.Rollout{ID: "pg-7-a", Group: "pg", Generation: 7}, Index: 1}},
		Operations: map[string]view.Rec[operation.Operation]{},
		Statuses:   map[string]view.Rec[group.Status]{"pg": {Value: group.Status{Group: "pg", Rollout: "pg-7-a"}}},
		Slots:      map[string]view.Rec[group.SlotRecord]{"pg-0": {Value: group.SlotRecord{Group: "pg", Slot: "pg-0"}}},
	}
	add := func(slot string, i int, ended time.Time, o operation.Operation) {
		o.ID, o.Group, o.Slot, o.Order, o.Rollout = fmt.Sprintf("pg-7-a.%d.%s", i, slot), "pg", slot, i, "pg-7-a"
		// Clocks of leaders differ: the last Operation may have an earlier end time.
		o.Times.Ended, o.Times.Created = ended.Add(-time.Duration(i)*time.Second), ended.Add(-time.Duration(i)*time.Minute)
		v.Operations[o.ID] = view.Rec[operation.Operation]{Value: o, Index: uint64(100 + i)}
	}
	for i := range n {
		o := operation.Operation{Kind: operation.Restart, Phase: operation.Done}
		if i == 3 {
			o.Transfer = &operation.Transfer{Made: true}
		}
		add("pg-0", i+1, now, o)
	}
	add("pg-0", n+1, time.Time{}, operation.Operation{Kind: operation.Update, Phase: operation.Draining})
	for i := range 10 {
		add("pg-8", i+1, now.Add(-time.Hour), operation.Operation{Phase: operation.Done})
		add("pg-9", i+1, now.Add(-31*24*time.Hour), operation.Operation{Phase: operation.Done})
	}
	return v
}

// TestTenThousandRestartsLeaveTheLastOnes, in the running rollout too. The sweep keeps the open
// Operation, the Operations that decisions rest on, and for some days a few of a removed Slot.
func TestTenThousandRestartsLeaveTheLastOnes(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := &Reconciler{cfg: Config{Now: func() time.Time { return now }}}
	v := restarted(now, 10_000)
	if !crowded(v) {
		t.Error("10,000 operations of one slot wait for the next sweep")
	}
	seen := observe.Group(v, group.Spec{Name: "pg"}, "demo", observe.Listing{}, noReports{}).Records.Operations
	for _, key := range keys(r.oldOperations(v)) {
		delete(v.Operations, strings.TrimPrefix(key, "operations/"))
	}
	left := map[string]int{}
	for _, o := range v.Operations {
		left[o.Value.Slot]++
	}
	if left["pg-0"] != 8+1+1 || left["pg-8"] != 3 || left["pg-9"] != 0 {
		t.Errorf("left are %v", left)
	}
	for _, id := range []string{"pg-7-a.10001.pg-0", "pg-7-a.10000.pg-0", "pg-7-a.9993.pg-0", "pg-7-a.4.pg-0", "pg-7-a.10.pg-8"} {
		if _, kept := v.Operations[id]; !kept {
			t.Errorf("%s is gone", id)
		}
	}
	if crowded(v) || len(r.oldOperations(v)) != 0 {
		t.Error("what was swept is swept again")
	}
	if after := observe.Group(v, group.Spec{Name: "pg"}, "demo", observe.Listing{}, noReports{}).Records.Operations; len(after) != len(seen)-3 || len(after) != len(v.Operations) {
		// The sweep removed pg-9's Operations for their age, and kept the others that a decision saw.
		t.Errorf("a decision saw %d operations, and %d after the sweep of %d", len(seen), len(after), len(v.Operations))
	}
}

type noReports struct{}

func (noReports) Of(string) (reports.Received, bool) { return reports.Received{}, false }

// TestRolloutsAreOrderedByGeneration: a leader whose clock was ahead started the older one.
func TestRolloutsAreOrderedByGeneration(t *testing.T) {
	now := time.Unix(1e9, 0)
	v := &view.View{Rollouts: map[string]view.Rec[operation.Rollout]{}}
	for n, o := range []operation.Rollout{
		{ID: "pg-9-a", Generation: 9, Term: 1, StartedAt: now.Add(time.Hour)},
		{ID: "pg-10-b", Generation: 10, Term: 2, StartedAt: now, State: operation.SupersededState},
		{ID: "pg-10-a", Generation: 10, Term: 2, StartedAt: now.Add(-time.Hour)},
	} {
		o.Group = "pg"
		v.Rollouts[o.ID] = view.Rec[operation.Rollout]{Value: o, Index: uint64(n + 1)}
	}
	var got []string
	for _, r := range v.RolloutsOf("pg") {
		got = append(got, r.Value.ID)
	}
	if want := []string{"pg-10-a", "pg-10-b", "pg-9-a"}; !slices.Equal(got, want) {
		t.Errorf("newest first: %v, want %v", got, want)
	}
}
