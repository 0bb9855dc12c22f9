package admission

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// twins is one Slot, two coordinators, and copies of its machine.
type twins struct{ *small }

func newTwins(t *testing.T) twins { return twins{newSmall(t, 2, 1, "demo")} }

// boot returns a new Boot of the machine or of a copy.
func (s twins) boot() *newcomer { return s.newcomer(0, 0) }

// mustAdmit admits b, whose reports arrive from then on.
func (s twins) mustAdmit(b *newcomer) {
	s.t.Helper()
	if err := b.again(b.Service).admit(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.setLive(b.bootID, true)
	s.await(func(v *view.View) bool { return v.Admissions["pg-0"].Value.BootID == b.bootID })
}

// wantConflict checks that b asks for the Slot and gets a conflict.
func (s twins) wantConflict(b *newcomer) string {
	s.t.Helper()
	err := b.again(b.Service).admit(s.t.Context())
	if code(err) != codeConflict {
		s.t.Fatalf("refused with %v, want %s", err, codeConflict)
	}
	return err.Error()
}

// dies makes the holder look dead: its reports stop, and its lease ends.
func (s twins) dies(b *newcomer) {
	s.t.Helper()
	s.setLive(b.bootID, false)
	s.endLease(0)
}

// takeOver lets a new Boot take the Slot from the silent holder.
func (s twins) takeOver(from *newcomer) *newcomer {
	s.t.Helper()
	s.dies(from)
	next := s.boot()
	s.mustAdmit(next)
	return next
}

// comesBack makes a former holder ask for its admission status, as a Boot does after a pause.
func (s twins) comesBack(b *newcomer) {
	s.t.Helper()
	r, err := b.again(s.services[1]).AdmissionStatus(s.t.Context(), &admissionv1.AdmissionStatusRequest{Group: "pg", Slot: "pg-0"})
	if err != nil || r.GetHolds() || r.GetCode() != string(codeStale) {
		s.t.Fatalf("a former holder gets %v, %v", r, err)
	}
}

// put writes a record without a lease check.
func put[T any](s twins, key string, value T) {
	s.t.Helper()
	op, err := store.Put(key, value, 0)
	if err == nil {
		err = s.store.Commit(s.t.Context(), op)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// released makes the second coordinator, as the leader, carry out an operator's release.
func (s twins) released() {
	s.t.Helper()
	put(s, store.QueueKey("release-1"), store.QueueRequest{
		ID: "release-1", Kind: store.RequestRelease, Group: "pg", Slot: "pg-0", Reason: "one copy was destroyed", By: "alice", At: s.clock().UTC(),
	})
	s.await(func(v *view.View) bool { return len(v.Queue) == 1 })
	v, _ := s.views.Latest()
	if !s.services[1].releases(s.t.Context(), s.leader, v) {
		s.t.Fatal("not released")
	}
	s.await(func(v *view.View) bool { return len(v.Queue) == 0 })
}

func (s twins) lastTurn() policy.DecisionEntry {
	s.t.Helper()
	d := s.decisions(0)
	if err := d.Verify(); err != nil {
		s.t.Fatal(err)
	}
	return d.Entries[len(d.Entries)-1]
}

// alternate lets two copies take the Slot from each other three times: each is paused until the
// other has the Slot, and then comes back.
func (s twins) alternate() (holder *newcomer) {
	s.t.Helper()
	holder = s.boot()
	s.mustAdmit(holder)
	for range policy.MaxContestedChanges {
		if s.admission(0).Contest.Reserved() {
			s.t.Fatal("held before its time")
		}
		next := s.takeOver(holder)
		s.comesBack(holder)
		holder = next
	}
	return holder
}

// After three changes of holder the last holder keeps the Slot, on every coordinator, whichever of
// the two is silent.
func TestIDN03_AlternatingCopiesReserveTheSlot(t *testing.T) {
	s := newTwins(t)
	holder := s.alternate()
	if a := s.admission(0); !a.Contest.Reserved() || a.Contest.Changes != policy.MaxContestedChanges || a.BootID != holder.bootID {
		t.Fatalf("contest %+v of boot %.12s", a.Contest, a.BootID)
	}
	if e := s.lastTurn(); e.What != policy.DecidedReserve || e.Code != codeConflict || e.BootID != holder.bootID {
		t.Errorf("last turn %+v", e)
	}
	s.dies(holder)
	for _, at := range s.services {
		if why := s.wantConflict(s.boot().again(at)); !strings.Contains(why, "cadre admission clear-conflict pg-0") {
			t.Errorf("the refusal names no way out: %s", why)
		}
	}
	// The holder stays in: its lease lapsed while it was away, and it attests again.
	s.mustAdmit(holder)
	if a := s.admission(0); a.BootID != holder.bootID || !a.Contest.Reserved() {
		t.Errorf("boot %.12s holds the slot, contest %+v", a.BootID, a.Contest)
	}
}

// After a release the next Boot may enter, and the count of changes starts again.
func TestIDN03_AReleaseLetsTheNextBootIn(t *testing.T) {
	s := newTwins(t)
	holder := s.alternate()
	s.released()
	if a := s.admission(0); a.Contest != (policy.Contest{}) || a.BootID != holder.bootID {
		t.Errorf("contest %+v", a.Contest)
	}
	if e := s.lastTurn(); e.What != policy.DecidedRelease || !strings.Contains(e.Message, "alice") {
		t.Errorf("last turn %+v", e)
	}
	next := s.takeOver(holder)
	if a := s.admission(0); a.BootID != next.bootID || a.Contest.Changes != 1 {
		t.Errorf("boot %.12s holds the slot, contest %+v", a.BootID, a.Contest)
	}
}

// The Boot that a restart by Cadre expects may enter a reserved Slot.
func TestIDN03_AnOperationEndsAHold(t *testing.T) {
	s := newTwins(t)
	holder, now := s.alternate(), s.clock().UTC()
	put(s, store.OperationKey("pg-1-0.1.pg-0"), operation.Operation{
		ID: "pg-1-0.1.pg-0", Group: "pg", Slot: "pg-0", Kind: operation.Update, Phase: operation.Joining,
		Before: operation.Before{BootID: holder.bootID}, Call: operation.Call{IssuedAt: now}, Times: operation.Times{Created: now}, Entered: operation.PhaseTimes{},
	})
	s.await(func(v *view.View) bool { _, there := v.OpenOperation("pg-0"); return there })
	expected := s.takeOver(holder)
	if a := s.admission(0); a.BootID != expected.bootID || a.Contest != (policy.Contest{}) {
		t.Errorf("boot %.12s holds the slot, contest %+v", a.BootID, a.Contest)
	}
}

// Each new Boot of one machine may enter, however often it crashes, because its predecessors send
// no more reports. The new Boot also asks while the old lease is in force.
func TestIDN03_ACrashLoopReservesNoSlot(t *testing.T) {
	s := newTwins(t)
	holder := s.boot()
	s.mustAdmit(holder)
	const crashes = 2*policy.MaxContestedChanges + 1
	for range crashes {
		next := s.boot()
		s.wantConflict(next) // the old Boot is dead, and still looks alive
		s.setLive(holder.bootID, false)
		s.now.Add(int64(2 * freshness))
		s.wantConflict(next) // its lease is in force for longer
		s.dies(holder)
		s.mustAdmit(next)
		holder = next
	}
	if a := s.admission(0); a.BootID != holder.bootID || a.Contest.Reserved() || a.Contest.Changes != crashes || a.Contest.Rival != "" {
		t.Errorf("boot %.12s holds the slot, contest %+v", a.BootID, a.Contest)
	}
}

// Copies that are killed instead of paused never return under an old key. The coordinator detects
// them while both run.
func TestIDN03_AHolderThatReportsDuringAClaimShowsTwoBoots(t *testing.T) {
	s := newTwins(t)
	holder := s.boot()
	s.mustAdmit(holder)
	for n := range policy.MaxContestedChanges {
		twin := s.boot()
		s.wantConflict(twin)
		s.now.Add(int64(freshness + time.Second))
		s.wantConflict(twin)
		if a := s.admission(0); n == 0 && a.Contest.Rival != twin.bootID {
			t.Fatalf("contest %+v, want a sign of boot %.12s", a.Contest, twin.bootID)
		}
		s.dies(holder)
		s.mustAdmit(twin)
		holder = twin
	}
	if a := s.admission(0); !a.Contest.Reserved() || a.BootID != holder.bootID {
		t.Errorf("contest %+v", a.Contest)
	}
}

// Neither a Boot that never held the Slot nor an evicted one shows that two copies are alive.
func TestBootsWithoutTheSlotDoNotShowTwoBoots(t *testing.T) {
	s := newTwins(t)
	evicted := s.boot()
	s.mustAdmit(evicted)
	if err := s.services[0].Evict(t.Context(), "pg-0", policy.CodePeerRevoked, "a test"); err != nil {
		t.Fatal(err)
	}
	s.mustAdmit(s.boot())
	for _, b := range []*newcomer{s.boot(), evicted} {
		if r, err := b.again(s.services[1]).AdmissionStatus(t.Context(), &admissionv1.AdmissionStatusRequest{Group: "pg", Slot: "pg-0"}); err != nil || r.GetHolds() {
			t.Fatalf("admission status %v, %v", r, err)
		}
	}
	if a := s.admission(0); a.Contest.Rival != "" {
		t.Errorf("contest %+v", a.Contest)
	}
}
