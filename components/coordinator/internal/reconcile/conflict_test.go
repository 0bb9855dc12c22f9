package reconcile

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestIDN03_TheStatusNamesBothClaimants: while the claim is fresh and is the last decision.
func TestIDN03_TheStatusNamesBothClaimants(t *testing.T) {
	now := time.Now().UTC()
	conflict := policy.DecisionEntry{
		At: now, What: policy.DecidedConflict, Code: policy.CodeInstanceConflict, BootID: "c10ec10e", InstanceID: "i1",
		HolderBootID: "a11ea11e", HolderInstanceID: "i1", By: "coordinator-0",
	}
	claimed := policy.Decisions{}.Append("pg-0", policy.DecisionEntry{At: now, What: policy.DecidedAdmit, BootID: "a11ea11e"}).Append("pg-0", conflict)
	for name, c := range map[string]struct {
		decisions policy.Decisions
		after     time.Duration
		want      bool
	}{
		"a claim":                      {claimed, time.Second, true},
		"a claim of long ago":          {claimed, conflictShown + time.Second, false},
		"a claim that was let in":      {claimed.Append("pg-0", policy.DecisionEntry{At: now, What: policy.DecidedAdmit, BootID: "c10ec10e"}), time.Second, false},
		"nothing was decided so far":   {policy.Decisions{}, time.Second, false},
		"the record cannot be trusted": {policy.Decisions{Slot: "pg-0"}, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := storetest.NewMemory()
			var ops []store.Op
			ops = append(ops,
				store.Op{Kind: store.OpPut, Key: store.SlotKey("pg", "pg-0"), Value: []byte(`{"group":"pg","slot":"pg-0"}`)},
				store.Op{Kind: store.OpPut, Key: store.RefusalKey("pg-0"), Value: []byte(`{"slot":"pg-0","boot_id":"c10ec10e","instance_id":"i1","code":"INSTANCE_CONFLICT","message":"","at":"2026-01-01T00:00:00Z","by":"x"}`)})
			if c.decisions.Slot != "" {
				put, err := store.Put(store.DecisionsKey("pg-0"), c.decisions, 0)
				if err != nil {
					t.Fatal(err)
				}
				ops = append(ops, put)
			}
			if err := s.Commit(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
			v, err := view.Read(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			p := &pass{Reconciler: &Reconciler{cfg: Config{Store: s}}, name: "pg", view: v, now: now.Add(c.after)}
			got, found := p.bootConflict(t.Context())
			if found != c.want {
				t.Fatalf("condition %+v, want one: %t (unusable: %v)", got, c.want, v.Bad)
			}
			if found && (!strings.Contains(got.Message, "c10ec10e") || !strings.Contains(got.Message, "a11ea11e") || got.Reason != "INSTANCE_CONFLICT") {
				t.Errorf("condition %+v", got)
			}
		})
	}
}

// TestIDN03_AReservedSlotRaisesACondition: the group's status has the condition from the contest until its
// release, with or without a later refusal.
func TestIDN03_AReservedSlotRaisesACondition(t *testing.T) {
	now := time.Now().UTC()
	contest := policy.Contest{}.Met("c10ec10e", now)
	for changes := range policy.MaxContestedChanges + 1 {
		s := storetest.NewMemory()
		put, err := store.Put(store.AdmissionKey("pg-0"), policy.Admission{Group: "pg", Slot: "pg-0", BootID: "a11ea11e", Contest: contest}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), put, store.Op{Kind: store.OpPut, Key: store.SlotKey("pg", "pg-0"), Value: []byte(`{"group":"pg","slot":"pg-0"}`)}); err != nil {
			t.Fatal(err)
		}
		v, err := view.Read(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		p := &pass{Reconciler: &Reconciler{cfg: Config{Store: s}}, name: "pg", view: v, now: now.Add(24 * time.Hour)}
		got, found := p.bootConflict(t.Context())
		if held := changes == policy.MaxContestedChanges; found != held {
			t.Errorf("after %d changes: condition %+v (unusable: %v)", changes, got, v.Bad)
		}
		if found && (got.Reason != "INSTANCE_CONFLICT" || !strings.Contains(got.Message, "cadre admission clear-conflict pg-0")) {
			t.Errorf("condition %+v", got)
		}
		contest = contest.Changed(false, now)
	}
}
