package admission

import (
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// A farewell frees the Slot at once, whichever coordinator keeps the lease. The Boot cannot return.
func TestAFarewellFreesTheSlotAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKeepers3(t, 1)
		boots := k.admitAll()
		unknown := k.newcomer(1, 0)
		if err := k.services[1].Farewell(t.Context(), "pg", "pg-0", unknown.bootID); err != nil {
			t.Errorf("a boot that is not the slot: %v", err)
		}
		k.wantHeld(boots, 0)
		for range 2 {
			if err := k.services[1].Farewell(t.Context(), "pg", "pg-0", boots[0].bootID); err != nil {
				t.Fatal(err)
			}
		}
		// The other coordinators did not receive the farewell and still hear the Boot.
		time.Sleep(time.Minute)
		if lease := k.lease(0); !lease.EndedBy(boots[0].bootID) {
			t.Fatalf("lease %+v", lease)
		}
		if err := boots[0].again(k.services[2]).admit(t.Context()); code(err) != codeStale {
			t.Errorf("the boot that said farewell: %v", err)
		}
		if a := k.admission(0); a.BootID != boots[0].bootID {
			t.Errorf("its admission is gone: %+v", a)
		}
		next := k.newcomer(2, 0)
		if err := next.admit(t.Context()); err != nil {
			t.Fatalf("its successor: %v", err)
		}
		k.hears(next.bootID, true, 0, 1, 2)
		time.Sleep(time.Minute)
		if lease := k.lease(0); !lease.LeasedBy(next.bootID) || lease.State != "" {
			t.Errorf("lease %+v", lease)
		}
		// A late farewell of the old Boot does not affect the new one.
		if err := k.services[0].Farewell(t.Context(), "pg", "pg-0", boots[0].bootID); err != nil || !k.lease(0).LeasedBy(next.bootID) {
			t.Errorf("a late farewell: %v, lease %+v", err, k.lease(0))
		}
	})
}

// The keeper of the Boot's lease has just ended.
func TestAFarewellOfABootWithoutALease(t *testing.T) {
	s := newSmall(t, 2, 1, "demo")
	b := s.newcomer(0, 0)
	if err := b.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.store.DestroySession(t.Context(), s.lease(0).Session); err != nil {
		t.Fatal(err)
	}
	if err := s.newcomer(1, 0).admit(t.Context()); code(err) != codeConflict {
		t.Errorf("a successor while others may hear the boot: %v", err)
	}
	if err := s.services[1].Farewell(t.Context(), "pg", "pg-0", b.bootID); err != nil {
		t.Fatal(err)
	}
	if err := s.newcomer(1, 0).admit(t.Context()); err != nil {
		t.Errorf("the successor: %v", err)
	}
}

// A Boot that said farewell renews nothing.
func TestARenewalNeedsALease(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	b := s.newcomer(0, 0)
	if err := b.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.services[0].Farewell(t.Context(), "pg", "pg-0", b.bootID); err != nil {
		t.Fatal(err)
	}
	s.await(func(v *view.View) bool { return v.Boots["pg-0"].EndedBy(b.bootID) })
	caller := overlay.Addr{ID: overlay.ID{Cluster: "demo", Group: "pg", Slot: "pg-0"}, BootID: b.bootID, PublicKey: string(b.bootKey)}
	if _, refused := s.services[0].renew(t.Context(), caller, &admissionv1.RenewRequest{BootId: b.bootID}); refused == nil || refused.code != policy.CodeRenewDenied {
		t.Errorf("renewal after a farewell: %v", refused)
	}
}
