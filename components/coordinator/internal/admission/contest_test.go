package admission

import (
	"context"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// silence makes the holder look dead: nothing is heard from it, its lease ends.
func (h *harness) silence(b *boot) {
	h.t.Helper()
	h.live[b.id()] = false
	h.endLease()
}

// takeOver lets a new Boot of the same machine, or of a copy, take pg-0 from the
// silent holder.
func (h *harness) takeOver(from *boot) *boot {
	h.t.Helper()
	h.silence(from)
	next := h.boot(composeText, h.seed)
	next.mustAdmit()
	h.live[next.id()] = true
	for {
		v, changed := h.views.Latest()
		if v.Admissions["pg-0"].Value.BootID == next.id() {
			return next
		}
		select {
		case <-changed:
		case <-h.t.Context().Done():
			h.t.Fatal("the new holder was not seen")
		}
	}
}

// comesBack has a former holder speak as a paused one does: it asks where it stands.
func (b *boot) comesBack() {
	b.h.t.Helper()
	b.connect()
	r, err := b.contact.Standing(b.h.t.Context(), &admissionv1.StandingRequest{Group: "pg", Slot: "pg-0"})
	if err != nil || r.GetHolds() || r.GetCode() != string(codeStale) {
		b.h.t.Fatalf("a former holder is told %v, %v", r, err)
	}
}

// released has the leader carry out an operator's release.
func (h *harness) released() {
	h.t.Helper()
	put, err := store.Put(store.QueueKey("release-1"), store.QueueRequest{
		ID: "release-1", Kind: store.RequestRelease, Group: "pg", Slot: "pg-0", Reason: "one copy was destroyed", By: "alice", At: time.Now().UTC(),
	}, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.Commit(h.t.Context(), put); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.service.Guard(ctx, h.leader) }()
	defer func() { cancel(); <-done }()
	for {
		_, changed := h.views.Latest()
		if _, err := h.store.Get(h.t.Context(), store.QueueKey("release-1")); err != nil {
			return
		}
		select {
		case <-changed:
		case <-h.t.Context().Done():
			h.t.Fatal("the release was not carried out")
		}
	}
}

func (h *harness) lastTurn() policy.DecisionEntry {
	h.t.Helper()
	d, _, err := store.Read[policy.Decisions](h.t.Context(), h.store, store.DecisionsKey("pg-0"))
	if err != nil {
		h.t.Fatal(err)
	}
	if err := d.Verify(); err != nil {
		h.t.Fatal(err)
	}
	return d.Entries[len(d.Entries)-1]
}

// alternate lets two copies take the Slot from each other three times: each is
// paused until the other has it, and comes back then.
func (h *harness) alternate() (first, holder *boot) {
	h.t.Helper()
	first = h.boot(composeText, h.seed)
	first.mustAdmit()
	h.live[first.id()] = true
	holder = first
	for range policy.MaxContestedChanges {
		if h.admission().Contest.Held() {
			h.t.Fatal("held before its time")
		}
		next := h.takeOver(holder)
		holder.comesBack()
		holder = next
	}
	return first, holder
}

// TestIDN03_TwinsThatAlternateAreHeld: after three changes of holder the third one
// stays, on every coordinator, whoever of the two is silent.
func TestIDN03_TwinsThatAlternateAreHeld(t *testing.T) {
	h := newHarness(t)
	_, holder := h.alternate()
	if a := h.admission(); !a.Contest.Held() || a.Contest.Changes != policy.MaxContestedChanges || a.BootID != holder.id() {
		t.Fatalf("contest %+v of boot %.12s", a.Contest, a.BootID)
	}
	if e := h.lastTurn(); e.What != policy.DecidedHold || e.Code != codeConflict || e.BootID != holder.id() {
		t.Errorf("last turn %+v", e)
	}
	h.silence(holder)
	for _, at := range []*Service{h.service, h.coordinator("coordinator-1")} {
		twin := h.boot(composeText, h.seed)
		twin.at = at
		_, err := twin.admit()
		h.wantRefusal(err, codeConflict, codeConflict)
		if !strings.Contains(err.Error(), "cadre admission release pg-0") {
			t.Errorf("the refusal names no way out: %v", err)
		}
	}
	// Who is in is not put out: its lease lapsed while it was away, and it is back.
	holder.mustAdmit()
	if a := h.admission(); a.BootID != holder.id() || !a.Contest.Held() {
		t.Errorf("boot %.12s holds the slot, contest %+v", a.BootID, a.Contest)
	}
}

// TestIDN03_AReleaseLetsTheNextBootIn, once, and the count begins anew.
func TestIDN03_AReleaseLetsTheNextBootIn(t *testing.T) {
	h := newHarness(t)
	_, holder := h.alternate()
	h.released()
	if a := h.admission(); a.Contest != (policy.Contest{}) || a.BootID != holder.id() {
		t.Errorf("contest %+v", a.Contest)
	}
	if e := h.lastTurn(); e.What != policy.DecidedRelease || !strings.Contains(e.Message, "alice") {
		t.Errorf("last turn %+v", e)
	}
	next := h.takeOver(holder)
	if a := h.admission(); a.BootID != next.id() || a.Contest.Changes != 1 {
		t.Errorf("boot %.12s holds the slot, contest %+v", a.BootID, a.Contest)
	}
}

// TestIDN03_AnOperationEndsAHold: the Boot that a restart by Cadre waits for gets in.
func TestIDN03_AnOperationEndsAHold(t *testing.T) {
	h := newHarness(t)
	_, holder := h.alternate()
	h.operation(holder.id())
	expected := h.takeOver(holder)
	if a := h.admission(); a.BootID != expected.id() || a.Contest != (policy.Contest{}) {
		t.Errorf("boot %.12s holds the slot, contest %+v", a.BootID, a.Contest)
	}
}

// TestIDN03_ACrashLoopIsNotHeld: each new Boot of one machine is let in, however
// often it crashes, since no old one is heard from again. It asks while the old
// lease runs, too.
func TestIDN03_ACrashLoopIsNotHeld(t *testing.T) {
	h := newHarness(t)
	holder := h.boot(composeText, h.seed)
	holder.mustAdmit()
	h.live[holder.id()] = true
	const crashes = 2*policy.MaxContestedChanges + 1
	for range crashes {
		next := h.boot(composeText, h.seed)
		_, err := next.admit() // the old one is dead, and still looks alive
		h.wantRefusal(err, codeConflict, codeConflict)
		h.live[holder.id()] = false
		h.ahead.Add(int64(2 * freshness))
		_, err = next.admit() // its lease runs for longer
		h.wantRefusal(err, codeConflict, codeConflict)
		h.silence(holder)
		next.mustAdmit()
		h.live[next.id()] = true
		holder = next
	}
	if a := h.admission(); a.BootID != holder.id() || a.Contest.Held() || a.Contest.Changes != crashes || a.Contest.Rival != "" {
		t.Errorf("boot %.12s holds the slot, contest %+v", a.BootID, a.Contest)
	}
}

// TestIDN03_AHolderHeardBesideAClaimantIsASign: copies that are killed instead of
// paused never come back under an old key; while both run they are seen.
func TestIDN03_AHolderHeardBesideAClaimantIsASign(t *testing.T) {
	h := newHarness(t)
	holder := h.boot(composeText, h.seed)
	holder.mustAdmit()
	h.live[holder.id()] = true
	for n := range policy.MaxContestedChanges {
		twin := h.boot(composeText, h.seed)
		for range 2 {
			_, err := twin.admit()
			h.wantRefusal(err, codeConflict, codeConflict)
			h.ahead.Add(int64(freshness + time.Second))
		}
		if a := h.admission(); n == 0 && a.Contest.Rival != twin.id() {
			t.Fatalf("contest %+v, want a sign of boot %.12s", a.Contest, twin.id())
		}
		h.silence(holder)
		twin.mustAdmit()
		h.live[twin.id()] = true
		holder = twin
	}
	if a := h.admission(); !a.Contest.Held() || a.BootID != holder.id() {
		t.Errorf("contest %+v", a.Contest)
	}
}

// TestStrangersCauseNoSign: whoever never held the Slot, and who lost it by decision
// of the cluster, does not show that two are alive.
func TestStrangersCauseNoSign(t *testing.T) {
	h := newHarness(t)
	evicted := h.boot(composeText, h.seed)
	evicted.mustAdmit()
	if err := h.service.Evict(t.Context(), "pg-0", policy.CodePeerRevoked, "a test"); err != nil {
		t.Fatal(err)
	}
	h.boot(composeText, h.seed).mustAdmit()
	for _, b := range []*boot{h.boot(composeText, h.seed), evicted} {
		b.connect()
		if r, err := b.contact.Standing(t.Context(), &admissionv1.StandingRequest{Group: "pg", Slot: "pg-0"}); err != nil || r.GetHolds() {
			t.Fatalf("standing %v, %v", r, err)
		}
	}
	if a := h.admission(); a.Contest.Rival != "" {
		t.Errorf("contest %+v", a.Contest)
	}
}
