package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestRolesOnConsul writes every kind of operators' record with each role on a real Consul.
func TestRolesOnConsul(t *testing.T) {
	server := storetest.StartConsulACL(t)
	root := client(t, server.Addr, server.ManagementToken)
	existing := []string{"pg", "pg-b", "web"}
	as := func(role store.Role, groups ...string) store.Store {
		return newConsul(t, store.ConsulConfig{Address: server.Addr, Token: mintToken(t, root, store.RoleRules(store.DefaultPrefix, role, groups, existing))})
	}
	who := map[string]store.Store{
		"view": as(store.RoleView), "operate": as(store.RoleOperate), "operate pg": as(store.RoleOperate, "pg"), "approve": as(store.RoleApprove), "admin": as(store.RoleAdmin),
	}
	const all, some, decide, admin = "operate,operate pg,admin", "operate,admin", "approve,admin", "admin"
	for key, want := range map[string]string{
		store.GroupSpecKey("pg"):                                  all,
		store.GroupSpecKey("pg-b"):                                some,
		store.GroupSpecKey("new"):                                 "",
		store.OverrideKey(store.OverridePause, "pg"):              all,
		store.OverrideKey(store.OverridePause, "web"):             some,
		store.OverrideKey(store.OverrideFreeze, "pg"):             all,
		store.OverrideKey(store.OverrideFreeze, "pg-b"):           some,
		store.OverrideKey(store.OverrideFreeze, "_all"):           some,
		store.OverrideKey(store.OverrideDrain, "pg-0"):            all,
		store.OverrideKey(store.OverrideGate, "pg/network"):       all,
		store.OverrideKey(store.OverrideGate, "pg/balancer/pg-0"): all,
		store.OverrideKey(store.OverrideGate, "pg-b/network"):     some,
		store.OverrideKey(store.OverrideHold, "pg/step_delay"):    all,
		store.OverrideKey(store.OverrideHold, "pg-b/step_delay"):  some,
		store.OverrideKey(store.OverrideDrain, "pg-b-0"):          some,
		store.OverrideKey(store.OverrideProtect, "pg-10"):         all,
		store.OverrideKey(store.OverrideExclude, "web-0"):         some,
		store.QueueKey("pg.restart-1"):                            all,
		store.QueueKey("pg-b.restart-1"):                          some,
		store.QueueKey("restart-1"):                               some,
		store.DeleteGroupKey("pg"):                                all,
		store.DeleteGroupKey("web"):                               some,
		store.DeleteDisksKey("pg"):                                all,
		store.RotateKey("pg", "key"):                              all,
		store.RotateKey("cluster", "gossip"):                      some,
		store.ApprovalKey("abc"):                                  decide,
		store.RequireApprovalKey():                                decide,
		store.RevocationKey("instance-abc"):                       decide,
		store.FloorKey("pg"):                                      decide,
		store.FloorKey("_all"):                                    decide,
		store.TCBExceptionKey("x"):                                decide,
		store.LoweringKey("00606a000000"):                         decide,
		store.AdoptKey("pg"):                                      admin,
		store.RecoverKey():                                        admin,
		store.OperatorKey("ann"):                                  admin,
		store.OperatorTokenKey(strings.Repeat("0d", 32)):          "",
		store.GroupStatusKey("pg"):                                "",
		store.SlotPolicyKey("pg-0"):                               "",
		store.AppliedKey("pg"):                                    "",
		"policy/groups/pg":                                        "",
	} {
		for name, s := range who {
			err := s.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte(`{}`)})
			if may := strings.Contains(","+want+",", ","+name+","); may && err != nil || !may && !errors.Is(err, store.ErrDenied) {
				t.Errorf("%s writes %s: %v, want it to be permitted: %v", name, key, err, may)
			}
		}
	}
	for name, s := range who {
		if _, err := s.Get(t.Context(), store.ApprovalKey("abc")); err != nil {
			t.Errorf("%s reads an approval: %v", name, err)
		}
	}
}

// TestAKindWithoutARoleIsAdmins: a new record of operators is closed to the narrow roles.
func TestAKindWithoutARoleIsAdmins(t *testing.T) {
	kind := store.Kind{Pattern: "control/new/<id>", Writer: store.Operator}
	for _, role := range store.Roles {
		if got := role.MayWrite(kind); got != (role == store.RoleAdmin) {
			t.Errorf("%s: %v", role, got)
		}
	}
}

func TestOperatorRecordCheck(t *testing.T) {
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	good := store.OperatorRecord{Name: "ann", Role: store.RoleOperate, Groups: []string{"pg"}, SHA256: strings.Repeat("0d", 32), Expires: noon, By: "x", At: noon}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*store.OperatorRecord){
		"name: ":                              func(r *store.OperatorRecord) { r.Name = "Ann" },
		"name: first is":                      func(r *store.OperatorRecord) { r.Name = "first" },
		"role: ":                              func(r *store.OperatorRecord) { r.Role = "root" },
		"groups: the role view covers":        func(r *store.OperatorRecord) { r.Role = store.RoleView },
		"groups: \"a/b\"":                     func(r *store.OperatorRecord) { r.Groups = []string{"a/b"} },
		"sha256: ":                            func(r *store.OperatorRecord) { r.SHA256 = "abc" },
		"expires: ":                           func(r *store.OperatorRecord) { r.Expires = time.Time{} },
		"next_sha256, next_expires: set both": func(r *store.OperatorRecord) { r.Next = strings.Repeat("1d", 32) },
		"next_sha256: is not":                 func(r *store.OperatorRecord) { r.Next, r.NextExpires = r.SHA256, noon },
	} {
		r := good
		change(&r)
		if err := r.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
