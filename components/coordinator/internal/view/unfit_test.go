package view_test

import (
	"fmt"
	"testing"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// TestNoRevocationFallsOutOfTheJudgement: records are bounded. A revocation that is only a key has
// no date, so it would be dropped first.
func TestNoRevocationFallsOutOfTheJudgement(t *testing.T) {
	entries := map[string]string{store.RevocationKey("instance-0a"): `now`}
	for n := range 40 {
		id := fmt.Sprintf("%02x", n)
		entries[store.RevocationKey("key_provider-"+id)] = `{"kind":"key_provider","id":"` + id + `","reason":"x","by":"ann","at":"2026-01-01T00:00:00Z"}`
	}
	v := read(t, entries)
	a := policy.Admission{Group: "pg", Slot: "pg-0", BootID: "b", InstanceID: "0a", Claims: policy.Claims{InstanceID: "0a", KeyProviderID: "ff"}}
	if d := v.Unfit(a, policy.SlotPolicy{Group: "pg", Slot: "pg-0", InstanceID: "0a"}); d.Code != policy.CodePeerRevoked {
		t.Errorf("stays: %+v", d)
	}
}

// TestABadSwitchIsNoBadAdmission: a plain edit of a switch leaves an unreadable record while it is
// on.
func TestABadSwitchIsNoBadAdmission(t *testing.T) {
	v := read(t, map[string]string{store.OverrideKey(store.OverrideFreeze, store.Everywhere): `now`, store.RotateKey("web", "cooky"): `now`, store.AdmissionKey("pg-0"): `{}`})
	if len(v.Bad) != 3 || v.BadBelow(store.SlotsPrefix) != nil || v.BadBelow(store.SlotsPrefix, store.AdmissionsPrefix) == nil {
		t.Errorf("bad: %v", v.Bad)
	}
}
