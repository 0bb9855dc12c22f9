package store_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"cadre.dev/store"
)

func TestKeyBuildersMatchTheTable(t *testing.T) {
	for pattern, key := range map[string]string{
		"groups/<group>/spec":                store.GroupSpecKey("pg"),
		"groups/<group>/status":              store.GroupStatusKey("pg"),
		"groups/<group>/slots/<slot>":        store.SlotStatusKey("pg", "pg-0"),
		"revisions/<digest>":                 store.RevisionKey("sha256:00ff"),
		"app-compose/<hash>":                 store.AppComposeKey(strings.Repeat("0f", 32)),
		"slots/<group>/<slot>":               store.SlotKey("pg", "pg-0"),
		"routes/<route>":                     store.RouteKey("pg-master"),
		"servicemesh/<group>":                store.ServiceMeshKey("pg"),
		"addresses/<group>":                  store.AddressesKey("pg"),
		"operations/<id>":                    store.OperationKey("01J8Z3-pg-0"),
		"rollouts/<id>":                      store.RolloutKey("pg.7"),
		"policy/slots/<slot>":                store.SlotPolicyKey("pg-0"),
		"admissions/<slot>":                  store.AdmissionKey("pg-0"),
		"refusals/<slot>":                    store.RefusalKey("pg-0"),
		"proofs/<slot>":                      store.ProofKey("pg-0"),
		"admission/nonces/<nonce>":           store.NonceKey("00112233445566778899aabbccddeeff"),
		"control/pause/<group>":              store.OverrideKey(store.OverridePause, "pg"),
		"control/freeze/<scope>":             store.OverrideKey(store.OverrideFreeze, store.Everywhere),
		"control/gate/<group>/<gate>":        store.OverrideKey(store.OverrideGate, "pg/balancer"),
		"control/gate/<group>/<gate>/<slot>": store.OverrideKey(store.OverrideGate, "pg/balancer/pg-0"),
		"control/override/<group>/<hold>":    store.OverrideKey(store.OverrideHold, "pg/step_delay"),
		"control/queue/<id>":                 store.QueueKey("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
		"control/delete/<group>":             store.DeleteGroupKey("pg"),
		"control/delete-disks/<group>":       store.DeleteDisksKey("pg"),
		"control/adopt/<group>":              store.AdoptKey("pg"),
		"lease/coordinator":                  store.LeaseKey,
		"lease/term":                         store.TermKey,
	} {
		kind, err := store.KindOf(key)
		if err != nil || kind.Pattern != pattern {
			t.Errorf("KindOf(%q): got %q, %v, want %q", key, kind.Pattern, err, pattern)
		}
	}
}

func TestINP07_KeyBuildersRefuseBadSegments(t *testing.T) {
	for _, bad := range []string{
		"", "a/b", "../a", ".", "..", "A", "a_b", "-a", "0a", "a b", "a\x00", "ä", "ＰＧ", strings.Repeat("g", 64), "!x", "a/spec",
	} {
		for name, key := range map[string]string{
			"GroupSpecKey": store.GroupSpecKey(bad), "GroupStatusKey": store.GroupStatusKey(bad),
			"SlotKey group": store.SlotKey(bad, "pg-0"), "SlotKey slot": store.SlotKey("pg", bad),
			"SlotStatusKey group": store.SlotStatusKey(bad, "pg-0"), "SlotStatusKey slot": store.SlotStatusKey("pg", bad),
			"SlotPolicyKey": store.SlotPolicyKey(bad), "AdmissionKey": store.AdmissionKey(bad),
			"RefusalKey": store.RefusalKey(bad), "PauseKey": store.OverrideKey(store.OverridePause, bad), "NonceKey": store.NonceKey(bad),
			"HoldKey group": store.OverrideKey(store.OverrideHold, bad+"/step_delay"), "GateKey group": store.OverrideKey(store.OverrideGate, bad+"/balancer"), "GateKey": store.OverrideKey(store.OverrideGate, "pg/"+bad), "GateKey slot": store.OverrideKey(store.OverrideGate, "pg/balancer/"+bad), "SlotGateKey": store.OverrideKey(store.OverrideGate, "pg/"+bad+"/pg-0"),
		} {
			if err := store.CheckKey(key); !errors.Is(err, store.ErrBadKey) {
				t.Errorf("%s(%q) = %q: got %v, want %v", name, bad, key, err, store.ErrBadKey)
			}
			if _, err := store.Put(key, store.Override{}, 0); !errors.Is(err, store.ErrBadKey) {
				t.Errorf("%s(%q) = %q: put: got %v, want %v", name, bad, key, err, store.ErrBadKey)
			}
		}
		if err := store.CheckPrefix(store.SlotsOf(bad)); !errors.Is(err, store.ErrBadKey) {
			t.Errorf("SlotsOf(%q): got %v, want %v", bad, err, store.ErrBadKey)
		}
	}
	for _, bad := range []string{"", "a/b", "..", ".a", "-a", "a b", "a\n", strings.Repeat("a", 129)} {
		for name, key := range map[string]string{
			"RevisionKey": store.RevisionKey(bad), "OperationKey": store.OperationKey(bad),
			"RolloutKey": store.RolloutKey(bad), "QueueKey": store.QueueKey(bad),
		} {
			if err := store.CheckKey(key); !errors.Is(err, store.ErrBadKey) {
				t.Errorf("%s(%q) = %q: got %v, want %v", name, bad, key, err, store.ErrBadKey)
			}
		}
	}
}

func TestBadSegmentIsNamed(t *testing.T) {
	err := store.CheckKey(store.SlotKey("pg", "pg/0"))
	if err == nil || !strings.Contains(err.Error(), `"pg/0"`) {
		t.Fatalf("got %v, want the segment in it", err)
	}
}

func TestNoKeyMatchesTwoRows(t *testing.T) {
	for _, kind := range store.Records {
		key := strings.NewReplacer("<group>", "a", "<slot>", "a", "<route>", "a", "<id>", "a", "<digest>", "a", "<hash>", strings.Repeat("0a", 32),
			"<nonce>", "00112233445566778899aabbccddeeff", "<revision>", "a", "<revocation>", "instance-a", "<scope>", "_all", "<fmspc>", "00112233aabb", "<secret>", "a", "<gate>", "a", "<hold>", "a", "<number>", "000000000001", "<operator>", "a", "<deployment>", "a", "<sha256>", strings.Repeat("0f", 32)).Replace(kind.Pattern)
		matches := 0
		for _, other := range store.Records {
			if other.Matches(key) {
				matches++
			}
		}
		if matches != 1 {
			t.Errorf("%s matches %d rows", key, matches)
		}
	}
}

func FuzzKindOf(f *testing.F) {
	f.Add("groups/pg/spec")
	f.Add("admission/nonces/00")
	f.Fuzz(func(t *testing.T, key string) {
		kind, err := store.KindOf(key)
		if err == nil && strings.Count(key, "/") != strings.Count(kind.Pattern, "/") {
			t.Errorf("%q is %q", key, kind.Pattern)
		}
	})
}

// TestIDN02_NamesOfDecisions: each name that operators put into a key has one spelling.
func TestIDN02_NamesOfDecisions(t *testing.T) {
	for key, want := range map[string]bool{
		store.ApprovalKey(strings.Repeat("a", 32)): true, store.ApprovalKey("a/b"): false, store.ApprovalKey(""): false,
		store.RevocationKey("instance-" + strings.Repeat("b", 40)):      true,
		store.RevocationKey("key_provider-" + strings.Repeat("c", 182)): true,
		store.RevocationKey("revision-0d"):                              true,
		store.RevocationKey("peer-0d"):                                  false,
		store.RevocationKey("instance-"):                                false,
		store.RevocationKey("instance-a/../../../lease/term"):           false,
		store.RevocationKey("key_provider-" + strings.Repeat("c", 301)): false,
		store.FloorKey("pg"):                                            true,
		store.FloorKey(store.Everywhere):                                true,
		store.FloorKey("_other"):                                        false,
		store.FloorKey("PG"):                                            false,
		store.GroupPolicyKey("pg"):                                      true,
		store.GroupPolicyKey(store.Everywhere):                          false,
		store.RequireApprovalKey():                                      true,
		store.ApprovalsPrefix + "0d":                                    true,
		store.RevocationsPrefix + "instance-0d":                         true,
	} {
		if _, err := store.KindOf(key); (err == nil) != want {
			t.Errorf("%q: %v, want %v", key, err, want)
		}
	}
}

// TestNamesAndIDs: the grammars equal these regular expressions, which define them.
func TestNamesAndIDs(t *testing.T) {
	for text, key := range map[string]func(string) string{`^[a-z][a-z0-9-]{0,62}$`: store.GroupSpecKey, `^[a-zA-Z0-9][a-zA-Z0-9._:-]{0,127}$`: store.RevisionKey} {
		want := regexp.MustCompile(text)
		try := func(s string) {
			t.Helper()
			if err := store.CheckKey(key(s)); (err == nil) != want.MatchString(s) {
				t.Errorf("%q: %v, unlike %s", s, err, text)
			}
		}
		for c := range 256 {
			for _, s := range []string{"", "a", "a0-", "a\n"} {
				try(s + string([]byte{byte(c)}))
				try(string([]byte{byte(c)}) + s)
			}
		}
		for n := range 131 {
			try(strings.Repeat("a", n))
		}
	}
}
