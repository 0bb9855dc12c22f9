package reconcile_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// measured are the measurements of the CVMs in these tests, images the accepted OS images.
var (
	measured = policy.Measurement{MRTD: strings.Repeat("1", 96), RTMR0: strings.Repeat("2", 96), RTMR1: strings.Repeat("3", 96), RTMR2: strings.Repeat("4", 96)}
	images   = policy.ImagePolicy{Images: map[string][]policy.Measurement{"dstack-0.5.7": {measured}}, KeyProviderName: "kms", KeyProviderID: "ab"}
)

// loseRecords removes every record of the group except its spec.
func (w *world) loseRecords() {
	w.t.Helper()
	all, _, err := w.store.List(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range all {
		for _, prefix := range []string{"slots/", "addresses/", "policy/slots/", "admissions/", "operations/", "rollouts/", "groups/pg/status", "groups/pg/slots/"} {
			if strings.HasPrefix(e.Key, prefix) {
				if err := w.store.Commit(w.t.Context(), store.Op{Kind: store.OpDelete, Key: e.Key}); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
}

// prove writes the Proof that admission keeps of each CVM's evidence.
func (w *world) prove(text, vipOf string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.membersLocked() {
		p, ok := policy.NewProof("pg", c.slot, c.boot, "", policy.Claims{
			AppID: c.AppID, InstanceID: c.InstanceID, ComposeHash: c.ComposeHash, ComposeText: text, KeyProviderName: "kms", KeyProviderID: "ab",
			MRTD: measured.MRTD, RTMR0: measured.RTMR0, RTMR1: measured.RTMR1, RTMR2: measured.RTMR2,
			TCB: policy.TCB{Status: "UpToDate", ValidUntil: time.Now().Add(time.Hour)},
		})
		if !ok {
			w.t.Fatal("no proof")
		}
		p.VIP = vipOf + string(rune('1'+c.slot[len(c.slot)-1]-'0'))
		p.At = time.Now()
		w.putJSON(store.ProofKey(c.slot), p)
	}
}

// losesAGroup makes a group, removes its records, and lets its CVMs attest.
func (w *world) losesAGroup() {
	w.t.Helper()
	w.apply(spec("one"))
	w.until("creation", 2*time.Minute, w.complete("one"))
	w.loseRecords()
	tick(w.t.Context(), time.Minute)
	w.prove(spec("one").Template.Compose, "127.50.1.")
}

func (w *world) boots() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]string{}
	for _, c := range w.membersLocked() {
		out[c.slot] = c.boot
	}
	return out
}

// adoptAll requests the adoption of every CVM in its present state.
func (w *world) adoptAll(change func(*store.Adoption)) {
	w.mu.Lock()
	request := store.Adoption{Group: "pg", Reason: "the snapshot was too old", By: "somebody"}
	for _, c := range w.membersLocked() {
		request.Members = append(request.Members, store.Adopted{Slot: c.slot, InstanceID: c.InstanceID, ComposeHash: c.ComposeHash})
	}
	w.mu.Unlock()
	if change != nil {
		change(&request)
	}
	w.putJSON(store.AdoptKey("pg"), request)
}

func (w *world) asked() bool {
	_, err := w.store.Get(w.t.Context(), store.AdoptKey("pg"))
	return !errors.Is(err, store.ErrNotFound)
}

// TestLostRecordsAreAdoptedWithoutARestart: without its records the running CVMs stay untouched.
// Once an operator adopts them they are the same members, with the same addresses and Boots.
func TestLostRecordsAreAdoptedWithoutARestart(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		calls, boots := w.made(""), w.boots()
		w.loseRecords()
		tick(t.Context(), 2*time.Minute)
		if got := w.made(""); !slices.Equal(got, calls) {
			t.Fatalf("calls while the records are lost: %v", got[len(calls):])
		}
		st := w.status()
		if st.Available != 0 || len(st.Instances) != 3 || !strings.Contains(st.Instances[0].Reason, "cadre group adopt pg") {
			t.Errorf("status %+v", st)
		}
		w.prove(spec("one").Template.Compose, "127.50.9.")
		w.adoptAll(nil)
		w.until("the adoption", time.Minute, func() bool { return !w.asked() })
		v, err := view.Read(t.Context(), w.store)
		if err != nil {
			t.Fatal(err)
		}
		for slot, record := range v.Slots {
			w.mu.Lock()
			cvm := w.memberLocked(slot)
			w.mu.Unlock()
			s := spec("one")
			if r := record.Value; r.InstanceID != cvm.InstanceID || r.VMUUID != cvm.VMUUID || !strings.HasPrefix(r.VIP, "127.50.9.") || r.Assigned != s.Revision() {
				t.Errorf("%s: %+v", slot, r)
			}
		}
		if len(v.Slots) != 3 || len(v.Proofs) != 0 {
			t.Errorf("%d slots, %d proofs", len(v.Slots), len(v.Proofs))
		}
		w.until("the group is available", 5*time.Minute, w.complete("one"))
		if got := w.made(""); !slices.Equal(got, calls) || !maps.Equal(w.boots(), boots) {
			t.Errorf("calls %v, boots %v, want %v", got[len(calls):], w.boots(), boots)
		}
		w.apply(spec("two"))
		w.until("the next update", 10*time.Minute, w.complete("two"))
	})
}

// TestOnlyTheRequestedEvidenceIsAdopted: a member whose evidence differs from the request stays as it
// is, and the request is removed.
func TestOnlyTheRequestedEvidenceIsAdopted(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.losesAGroup()
		w.adoptAll(func(a *store.Adoption) {
			a.Members[1].ComposeHash = strings.Repeat("0", 64)
			a.Members = append(a.Members, store.Adopted{Slot: "pg-9", InstanceID: "x", ComposeHash: "y"})
		})
		w.until("the adoption", time.Minute, func() bool { return !w.asked() })
		for slot, want := range map[string]bool{"pg-0": true, "pg-1": false, "pg-2": true} {
			r, _, err := store.Read[group.SlotRecord](t.Context(), w.store, store.SlotKey("pg", slot))
			sp, _, errPolicy := store.Read[policy.SlotPolicy](t.Context(), w.store, store.SlotPolicyKey(slot))
			if err != nil || (r.InstanceID != "") != want || (errPolicy == nil && sp.InstanceID != "") != want {
				t.Errorf("%s: %+v, %+v, %v, %v", slot, r, sp, err, errPolicy)
			}
		}
		if got := w.made(""); len(got) != 3 {
			t.Errorf("calls %v", got)
		}
	})
}

// TestAnAdoptionWaitsForTheEndOfATask: a CVM that the platform works on is not bound.
func TestAnAdoptionWaitsForTheEndOfATask(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.losesAGroup()
		busy := func(is bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, c := range w.membersLocked() {
				c.InProgress = is
			}
		}
		busy(true)
		tick(t.Context(), 3*time.Minute) // every listing that the leader goes by is a newer one
		w.adoptAll(nil)
		tick(t.Context(), time.Minute)
		if !w.asked() {
			t.Fatal("the request is gone while the platform works on the CVMs")
		}
		busy(false)
		w.until("the adoption", 3*time.Minute, func() bool { return !w.asked() })
		w.until("the group is available", 5*time.Minute, w.complete("one"))
	})
}
