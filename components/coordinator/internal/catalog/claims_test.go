package catalog_test

import (
	"context"
	"slices"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// another admits a second Slot of the group.
func (w *world) another(slot, boot, vip string) {
	w.t.Helper()
	put(w, store.SlotKey("pg", slot), group.SlotRecord{Group: "pg", Slot: slot, Ordinal: 2, VIP: vip})
	put(w, store.AdmissionKey(slot), policy.Admission{Group: "pg", Slot: slot, BootID: boot})
	session, err := w.store.CreateSession(w.t.Context(), boot, time.Minute)
	if err == nil {
		err = w.store.Commit(w.t.Context(), store.Op{Kind: store.OpLock, Key: store.BootLeaseKey(slot),
			Value: []byte(`{"slot":"` + slot + `","boot_id":"` + boot + `"}`), Session: session})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (c *one) claim(slot, boot string, sequence, epoch uint64, role controlv1.Role) {
	c.reports.Put(slot, boot, &controlv1.Report{
		Sequence: sequence, MemberKnown: true, Member: &controlv1.MemberView{Role: role, Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true, Epoch: epoch},
	})
	c.writer.Note(slot)
}

// leaders waits until exactly those Slots have the leader's tag and all members are passing.
func (w *world) leaders(what string, members int, want ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	var index uint64
	for {
		list, meta, err := w.admin.Health().Service("pg", "", true, (&consul.QueryOptions{WaitIndex: index, WaitTime: 10 * time.Second}).WithContext(ctx))
		if err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
		var lead []string
		for _, e := range list {
			if slices.Contains(e.Service.Tags, "leader") {
				lead = append(lead, e.Node.Node)
			}
		}
		if slices.Sort(lead); len(list) == members && slices.Equal(lead, want) {
			return
		}
		index = meta.LastIndex
	}
}

// A replaced leader loses the tag with the first report of its successor, although it still claims
// to lead. The old leader gets the tag again when the successor leads no more.
func TestAReplacedLeaderLosesTheTag(t *testing.T) {
	const leads, follows = controlv1.Role_ROLE_LEADER, controlv1.Role_ROLE_FOLLOWER
	w := newWorld(t)
	w.admit("b1")
	w.another("pg-2", "c1", "127.50.1.3")
	c := w.coordinator(true)
	c.claim(slot, "b1", 1, 5, leads)
	c.claim("pg-2", "c1", 1, 5, follows)
	w.leaders("one leads", 2, slot)
	c.claim("pg-2", "c1", 2, 6, leads)
	w.leaders("its successor does", 2, "pg-2")
	c.settled(w)
	before := w.index()
	third := w.coordinator(true) // a coordinator without any knowledge of the catalog
	third.claim("pg-2", "c1", 3, 6, leads)
	third.settled(w)
	for n := range uint64(5) {
		for _, each := range []*one{c, third} {
			each.claim(slot, "b1", 2+n, 5, leads)
			each.claim("pg-2", "c1", 4+n, 6, leads)
			each.settled(w)
		}
	}
	if now := w.index(); now != before {
		t.Errorf("index %d, was %d: written while nothing changed", now, before)
	}
	c.claim("pg-2", "c1", 9, 6, follows)
	w.leaders("the other leads no more", 2, slot)

	// Without epochs the order of the two claims is unknown.
	c.claim("pg-2", "c1", 10, 0, leads)
	w.leaders("an epoch is not known", 2, slot, "pg-2")
	c.claim("pg-2", "c1", 11, 5, leads)
	w.leaders("both lead at one epoch", 2, slot, "pg-2")

	// The claim of a Boot without its Slot does not count.
	c.claim("pg-2", "c1", 12, 7, leads)
	w.leaders("the newer one", 2, "pg-2")
	c.reports.Farewell("pg-2", "c1")
	c.writer.Note("pg-2")
	w.leaders("it said farewell", 2, slot, "pg-2") // its entry stays as long as its records
}
