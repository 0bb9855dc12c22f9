package admission

import (
	"fmt"
	"testing"
	"time"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// A keeper's step rests on the lease as the keeper saw it. A successor may hold the lease by then,
// with the same session, and keeps it.
func TestAKeeperFreesNoSuccessorsLease(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	old := s.newcomer(0, 0)
	if err := old.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, k := s.read(), s.services[0].keeper
	s.endLease(0)
	next := s.newcomer(0, 0)
	if err := next.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, does := range []step{offer, giveUp, take} {
		w := wanted{step: does, slot: "pg-0", boot: old.bootID, admission: before.Admissions["pg-0"], lease: before.Boots["pg-0"]}
		d, err := w.duty("coordinator-0", k.own(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		k.commit(t.Context(), []duty{d})
		if lease := s.lease(0); !lease.LeasedBy(next.bootID) || lease.State != "" || lease.Generation != 2 {
			t.Fatalf("after step %d by an old view: %+v", does, lease)
		}
	}
}

// A revoked Boot gets no lease again; the other Boots of the same transaction do.
func TestARevokedBootGetsNoLeaseAgain(t *testing.T) {
	s := newSmall(t, 1, 20, "demo")
	for i := range s.slots {
		b := s.newcomer(0, i)
		if err := b.admit(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.setLive(b.bootID, true)
	}
	revoked := policy.Revocation{Kind: policy.RevokedInstance, ID: instanceOf(7), Reason: "stolen", By: "alice", At: time.Now().UTC()}
	op, err := store.Put(store.RevocationKey(revoked.Name()), revoked, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Commit(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	if err := s.store.DestroySession(t.Context(), s.services[0].keeper.own()); err != nil {
		t.Fatal(err)
	}
	k := s.services[0].keeper
	if err := k.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.keep(t.Context(), s.read(), true, nil)
	for i := range s.slots {
		if got := s.lease(i).Leased(); got != (i != 7) {
			t.Errorf("slot %d: held %t", i, got)
		}
	}
}

func TestBatchesAreBounded(t *testing.T) {
	var all []duty
	for i := range 100 {
		d := duty{slot: fmt.Sprint(i)}
		for n := range 3 {
			d.ops = append(d.ops, store.Op{Kind: store.OpCheckIndex, Key: fmt.Sprint(i, "/", n)})
		}
		d.ops = append(d.ops, store.Op{Kind: store.OpCheckAbsent, Key: fmt.Sprint("group ", i/10)})
		all = append(all, d)
	}
	n := 0
	for _, batch := range batches(all, keepOps) {
		if ops := opsOf(batch); len(ops) > keepOps || len(ops) == 0 {
			t.Errorf("%d operations", len(ops))
		}
		n += len(batch)
	}
	if n != len(all) {
		t.Errorf("%d duties of %d", n, len(all))
	}
}
