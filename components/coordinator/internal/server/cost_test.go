package server

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// wholes counts the reads of all records.
type wholes struct {
	store.Store
	n atomic.Int64
}

func (w *wholes) Together(ctx context.Context, what ...string) ([]store.Entry, error) {
	// A read of one group names the keys of that group; only a read of all groups names this prefix.
	if slices.Contains(what, store.SlotsPrefix+store.Below) {
		w.n.Add(1)
	}
	return w.Store.Together(ctx, what...)
}

// TestACallAboutOneGroupReadsThatGroup: the cost of a call does not depend on the other groups. A
// call that decides may read everything once, to find the affected groups and an earlier request.
func TestACallAboutOneGroupReadsThatGroup(t *testing.T) {
	a := newAPI(t)
	put(a, t, store.GroupSpecKey("pg"), spec(t))
	put(a, t, store.SlotKey("pg", "pg-0"), group.SlotRecord{Group: "pg", Slot: "pg-0"})
	counted := &wholes{Store: a.cfg.Store}
	a.cfg.Store = counted
	one := []string{
		"ApplyGroup", "ApplyGroup, dry run", "GetGroup", "PlanRollout", "PlanRollout with a spec", "WatchGroup", "ListRollouts",
		"ListSecrets of a group", "RotateSecret", "GetOverlay of a slot", "PingPeer from a slot", "BenchPeer from a slot",
		"DescribeInstance", "ExplainAdmission", "GetCluster", "ListAdoptable",
	}
	calls := a.every(t)
	for _, name := range one {
		if calls[name] == nil {
			t.Fatalf("no call %q", name)
		}
	}
	var all int64
	for name, call := range calls {
		most := int64(1)
		if slices.Contains(one, name) {
			most = 0
		}
		counted.n.Store(0)
		_ = call(as(t.Context(), operatorToken)) // other tests cover the rights
		n := counted.n.Load()
		if all += n; n > most {
			t.Errorf("%s read all records %d times, want at most %d", name, n, most)
		}
	}
	if all == 0 {
		t.Error("the test counts no read, also of the calls that decide")
	}
}
