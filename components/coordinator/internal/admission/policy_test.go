package admission

import (
	"encoding/json"
	"strings"
	"testing"

	"cadre.dev/attest/statement"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// write puts a record as an operator or a leader does.
func (h *harness) write(key string, value any) {
	h.t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.Commit(h.t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: raw}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) narrow(change func(*policy.SlotPolicy)) {
	h.t.Helper()
	sp, _, err := store.Read[policy.SlotPolicy](h.t.Context(), h.store, store.SlotPolicyKey("pg-0"))
	if err != nil {
		h.t.Fatal(err)
	}
	change(&sp)
	sp.Epoch++
	h.write(store.SlotPolicyKey("pg-0"), sp)
}

// TestATT25_AdmissionAppliesTheFoldedPolicy checks floor and approval, with the precise codes
// that genuine evidence gets.
func TestATT25_AdmissionAppliesTheFoldedPolicy(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	h.narrow(func(sp *policy.SlotPolicy) { sp.Floor, sp.Allowed[0].Number = 3, 2 })
	_, err := b.admit()
	h.wantRefusal(err, policy.CodeRevisionBelowFloor, policy.CodeRevisionBelowFloor)
	h.narrow(func(sp *policy.SlotPolicy) { sp.Floor, sp.RequireApproval = 2, true })
	_, err = b.admit()
	h.wantRefusal(err, policy.CodeRevisionNotApproved, "")
	h.narrow(func(sp *policy.SlotPolicy) { sp.Allowed[0].Approved = true })
	b.mustAdmit()
}

// A revocation that no leader has folded into the Slot's policy takes effect. Its key alone counts,
// and its content does not matter.
func TestARevocationTakesEffectWithoutALeader(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	b.mustAdmit()
	for name, c := range map[string]struct {
		revoked string
		want    policy.Code
	}{
		"the instance":     {"instance-" + b.info.InstanceID, policy.CodePeerRevoked},
		"the revision":     {"revision-" + revision, policy.CodeRevisionNotAllowed},
		"the compose hash": {"revision-" + b.info.ComposeHash, policy.CodeRevisionNotAllowed},
		"the key provider": {"key_provider-" + h.cloud.KeyProviderID(), policy.CodeKMSPolicyMismatch},
	} {
		key := store.RevocationKey(c.revoked)
		if err := h.store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte("now")}); err != nil {
			t.Fatal(err)
		}
		_, err := b.admit()
		t.Run(name, func(*testing.T) { h.wantRefusal(err, c.want, "") })
		if err := h.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	b.mustAdmit()
}

// The statement names a free Slot, a taken one, a removed one, and a coordinator.
func TestIDN01_IDN07_ABootGetsOnlyTheSlotOfItsInstance(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	for name, c := range map[string]struct {
		group, slot string
		want        policy.Code
	}{
		"a free slot":     {"pg", "pg-1", policy.CodeSlotMismatch},
		"another group's": {"web", "web-0", policy.CodeSlotMismatch},
		"a removed slot":  {"pg", "pg-9", policy.CodeSlotMismatch},
		"a coordinator":   {"coordinator", "coordinator-0", policy.CodeIdentityForbidden},
	} {
		b.connect()
		challenge, err := b.challenge()
		if err != nil {
			t.Fatal(err)
		}
		h.service.mu.Lock()
		clear(h.service.noted) // each refusal is to be written
		h.service.mu.Unlock()
		_, err = b.contact.Admit(t.Context(), b.request(challenge, func(s *statement.Agent) { s.Group, s.Slot = c.group, c.slot }))
		t.Run(name, func(*testing.T) { h.wantRefusal(err, codeRejected, c.want) })
	}
}

// A Boot's name has one spelling; any other spelling is refused.
func TestIDN02_NamesHaveOneSpelling(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	for _, slot := range []string{"", "PG-0", "pg-0 ", "pg\u20100", "pg-0/", "../pg-0", "pg-0\x00", "рg-0", strings.Repeat("p", 300)} {
		b.connect()
		challenge, err := b.challenge()
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.contact.Admit(t.Context(), b.request(challenge, func(s *statement.Agent) { s.Slot = slot }))
		h.wantRefusal(err, codeCanonical, "")
	}
	b.mustAdmit()
}
