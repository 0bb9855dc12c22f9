package storetest_test

import (
	"testing"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestOnCommitted: an applied transaction is reported once, with its fence and its deletions. A
// rejected one is not reported.
func TestOnCommitted(t *testing.T) {
	m := storetest.NewMemory()
	var told []storetest.Committed
	m.OnCommitted(func(c storetest.Committed) { told = append(told, c) })
	if err := m.Commit(t.Context(), putOp("operators/a", "1")); err != nil {
		t.Fatal(err)
	}
	lease, err := m.Acquire(t.Context(), "coordinator-1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Release(t.Context()) }()
	gone := store.Op{Kind: store.OpDelete, Key: "operators/a"}
	if err := m.Commit(t.Context(), append(lease.Fence(), gone)...); err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(t.Context(), store.Op{Kind: store.OpDeleteCAS, Key: "operators/a", Index: 1}); err == nil {
		t.Fatal("a key that is gone was deleted")
	}
	if len(told) != 2 || told[0].Holder != "" || told[0].Index >= told[1].Index {
		t.Fatalf("reported: %+v", told)
	}
	if c := told[1]; c.Holder != "coordinator-1" || c.Term != lease.Term() || len(c.Before) != 1 || string(c.Before[0]) != "1" {
		t.Errorf("of the fenced one: %+v", c)
	}
	m.OnCommitted(nil)
	if err := m.Commit(t.Context(), putOp("operators/a", "2")); err != nil || len(told) != 2 {
		t.Errorf("after its end: %v, %d", err, len(told))
	}
}
