package admission

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// between runs f once, right before the first transaction with an operation of kind on key.
func (s *small) between(kind store.OpKind, key string, f func()) {
	done := false
	s.store.OnCommit(func(ops []store.Op) storetest.Fault {
		if !done && slices.ContainsFunc(ops, func(op store.Op) bool { return op.Kind == kind && op.Key == key }) {
			done = true
			f()
		}
		return storetest.None
	})
	s.t.Cleanup(func() { s.store.OnCommit(nil) })
}

// silent is a silent Boot of pg-0 whose lease was given up.
func silent(t *testing.T, s *small) *newcomer {
	t.Helper()
	b := s.newcomer(0, 0)
	if err := b.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.endLease(0)
	s.await(func(v *view.View) bool { return v.Boots["pg-0"].Index != 0 && !v.Boots["pg-0"].Leased() })
	return b
}

// A Boot whose reports resume while a rival is admitted keeps its Slot. The Boot also keeps it if
// one coordinator takes the lease again and admits the rival, both with its one session.
func TestThreat_IDN03_ALeaseThatIsTakenMeanwhileIsNotOverwritten(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	b := silent(t, s)
	rival := s.newcomer(0, 0)
	s.between(store.OpLock, store.BootLeaseKey("pg-0"), func() {
		s.setLive(b.bootID, true)
		s.services[0].keeper.keep(t.Context(), s.read(), true, nil)
	})
	if err := rival.admit(t.Context()); code(err) != codeConflict {
		t.Errorf("the rival: %v", err)
	}
	if lease := s.lease(0); !lease.LeasedBy(b.bootID) || s.admission(0).BootID != b.bootID {
		t.Errorf("lease %+v, admission %+v", lease, s.admission(0))
	}
}

// A farewell is not undone by an admission of the same Boot that was decided before it.
func TestThreat_IDN03_AFarewellDuringAnAdmissionCounts(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	b := s.newcomer(0, 0)
	if err := b.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.between(store.OpLock, store.BootLeaseKey("pg-0"), func() {
		if err := s.services[0].Farewell(t.Context(), "pg", "pg-0", b.bootID); err != nil {
			t.Error(err)
		}
	})
	if err := b.again(s.services[0]).admit(t.Context()); code(err) != codeStale {
		t.Errorf("the boot that said farewell meanwhile: %v", err)
	}
	if lease := s.lease(0); !lease.EndedBy(b.bootID) {
		t.Errorf("lease %+v", lease)
	}
}

// An eviction leaves no lease, even if a keeper takes it at the same moment. Such a lease would
// keep the Slot closed for as long as that coordinator runs.
func TestAnEvictionLeavesNoLease(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	b := silent(t, s)
	s.between(store.OpDeleteCAS, store.AdmissionKey("pg-0"), func() {
		s.setLive(b.bootID, true)
		s.services[0].keeper.keep(t.Context(), s.read(), true, nil)
	})
	if err := s.services[0].Evict(t.Context(), "pg-0", policy.CodePeerRevoked, "test"); err != nil {
		t.Fatal(err)
	}
	if lease := s.lease(0); lease.Leased() {
		t.Errorf("an evicted boot has a lease: %+v", lease)
	}
	if err := s.newcomer(0, 0).admit(t.Context()); err != nil {
		t.Errorf("the next boot: %v", err)
	}
}

// A keeper gives up a lease without an admission once its Boot is silent. While the Boot sends
// reports, the lease protects a Slot whose record was lost.
func TestALeaseWithoutAnAdmissionIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKeepers3(t, 1)
		boots := k.admitAll()
		time.Sleep(time.Second)
		if err := k.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.AdmissionKey("pg-0")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * DefaultLeaseTTL)
		k.wantHeld(boots, 0, 1, 2)
		k.hears(boots[0].bootID, false, 0, 1, 2)
		time.Sleep(DefaultLeaseTTL / 2)
		k.wantStillLocked(boots[0])
		time.Sleep(DefaultLeaseTTL)
		if lease := k.lease(0); lease.Leased() {
			t.Errorf("lease %+v", lease)
		}
		if err := k.newcomer(1, 0).admit(t.Context()); err != nil {
			t.Errorf("the next boot: %v", err)
		}
	})
}

func (k *keepers3) wantStillLocked(b *newcomer) {
	k.t.Helper()
	if lease := k.lease(b.slot); !lease.LeasedBy(b.bootID) {
		k.t.Errorf("lease %+v", lease)
	}
}

// A renewal waits for a lapsed lease: its keeper ended, and a coordinator that hears the Boot soon
// takes it again. A final refusal would be recorded, and would last for minutes.
func TestARenewalWaitsForALapsedLease(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	b := s.newcomer(0, 0)
	if err := b.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.store.DestroySession(t.Context(), s.services[0].keeper.own()); err != nil {
		t.Fatal(err)
	}
	s.await(func(v *view.View) bool { return v.Boots["pg-0"].Index != 0 && !v.Boots["pg-0"].Leased() })
	caller := overlay.Addr{ID: overlay.ID{Cluster: "demo", Group: "pg", Slot: "pg-0"}, BootID: b.bootID, PublicKey: string(b.bootKey)}
	_, refused := s.services[0].renew(t.Context(), caller, &admissionv1.RenewRequest{BootId: b.bootID})
	if refused == nil || status.Code(refused.renewal()) != codes.Unavailable {
		t.Errorf("a renewal without a lease: %v", refused)
	}
}

// A farewell opens a new session if the coordinator that receives it has lost its own.
func TestAFarewellReplacesALostSession(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	b := s.newcomer(0, 0)
	if err := b.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.store.DestroySession(t.Context(), s.services[0].keeper.own()); err != nil {
		t.Fatal(err)
	}
	if err := s.services[0].Farewell(t.Context(), "pg", "pg-0", b.bootID); err != nil {
		t.Fatal(err)
	}
	if lease := s.lease(0); !lease.EndedBy(b.bootID) {
		t.Errorf("lease %+v", lease)
	}
}
