package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/consul/api"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestRoleRules checks the rights of an admin on a real Consul with ACLs.
func TestRoleRules(t *testing.T) {
	server := storetest.StartConsulACL(t)
	leader := newConsul(t, store.ConsulConfig{Address: server.Addr, Token: server.ManagementToken})
	secret := mintToken(t, client(t, server.Addr, server.ManagementToken), store.RoleRules(store.DefaultPrefix, store.RoleAdmin, nil, []string{"pg"}))
	operator := newConsul(t, store.ConsulConfig{Address: server.Addr, Token: secret})
	// Records without a Term stop a new leader: there was a leader before.
	lease, err := leader.Acquire(t.Context(), "leader")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(t, leader, store.Op{Kind: store.OpPut, Key: store.GroupStatusKey("pg"), Value: []byte(`{}`)})

	for _, key := range []string{store.GroupSpecKey("pg"), store.OverrideKey(store.OverridePause, "pg"), store.OverrideKey(store.OverrideFreeze, store.Everywhere), store.QueueKey("q1")} {
		commit(t, operator, store.Op{Kind: store.OpPutCAS, Key: key, Value: []byte(`{}`)})
	}
	for _, key := range []string{
		store.GroupSpecKey("other"), store.GroupStatusKey("pg"), store.SlotKey("pg", "pg-0"), store.OperationKey("x"),
		store.SlotPolicyKey("pg-0"), store.AdmissionKey("pg-0"), store.RevisionKey("x"), store.RolloutKey("x"), store.AppliedKey("pg"),
	} {
		if err := operator.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key}); !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrConflict) {
			t.Errorf("operator writes %s: got %v, want %v", key, err, store.ErrDenied)
		}
	}
	if _, err := operator.Get(t.Context(), store.GroupStatusKey("pg")); err != nil {
		t.Errorf("operator reads the status: %v", err)
	}
	if _, err := operator.Acquire(t.Context(), "operator"); !errors.Is(err, store.ErrDenied) {
		t.Errorf("operator takes the lease: got %v, want %v", err, store.ErrDenied)
	}

	half := newConsul(t, store.ConsulConfig{Address: server.Addr, Token: mintToken(t, client(t, server.Addr, server.ManagementToken),
		`key "cadre/v1/groups/pg/spec" { policy = "read" }`)})
	if entries, _, err := half.List(t.Context(), store.GroupsPrefix); !errors.Is(err, store.ErrDenied) {
		t.Errorf("a list with holes: got %v, %v, want %v", entries, err, store.ErrDenied)
	}
	for _, what := range []string{store.GroupsPrefix + store.Below, store.GroupStatusKey("pg")} {
		if entries, err := half.Together(t.Context(), store.GroupSpecKey("pg"), what); !errors.Is(err, store.ErrDenied) {
			t.Errorf("reads together with %s: got %v, %v, want %v", what, entries, err, store.ErrDenied)
		}
	}

	stranger := newConsul(t, store.ConsulConfig{Address: server.Addr, Token: "00000000-1111-2222-3333-444444444444"})
	if _, err := stranger.Get(t.Context(), store.OverrideKey(store.OverrideFreeze, store.Everywhere)); !errors.Is(err, store.ErrDenied) || !errors.Is(err, store.ErrTokenUnknown) {
		t.Errorf("stranger reads: got %v, want %v, %v", err, store.ErrDenied, store.ErrTokenUnknown)
	}
	if _, err := stranger.Together(t.Context(), store.OverrideKey(store.OverrideFreeze, store.Everywhere)); !errors.Is(err, store.ErrDenied) || !errors.Is(err, store.ErrTokenUnknown) {
		t.Errorf("stranger reads together: got %v, want %v, %v", err, store.ErrDenied, store.ErrTokenUnknown)
	}
	if err := stranger.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: store.OverrideKey(store.OverrideFreeze, store.Everywhere)}); !errors.Is(err, store.ErrDenied) || !errors.Is(err, store.ErrTokenUnknown) {
		t.Errorf("stranger writes: got %v, want %v, %v", err, store.ErrDenied, store.ErrTokenUnknown)
	}
	if _, err := half.Get(t.Context(), store.OverrideKey(store.OverrideFreeze, store.Everywhere)); !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrTokenUnknown) {
		t.Errorf("a known token reads what it may not: got %v, want %v alone", err, store.ErrDenied)
	}
}

func mintToken(t *testing.T, c *api.Client, rules string) string {
	t.Helper()
	p, _, err := c.ACL().PolicyCreate(&api.ACLPolicy{Name: fmt.Sprintf("policy-%d", len(rules)), Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := c.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: p.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}
