package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// loseSlot deletes all records of pg-0 except its decisions and lease.
func (h *harness) loseSlot() {
	h.t.Helper()
	for _, key := range []string{store.SlotKey("pg", "pg-0"), store.SlotPolicyKey("pg-0"), store.AdmissionKey("pg-0")} {
		if err := h.store.Commit(h.t.Context(), store.Op{Kind: store.OpDelete, Key: key}); err != nil {
			h.t.Fatal(err)
		}
	}
	h.until(func(v *view.View) bool { _, there := v.Policies["pg-0"]; return !there })
}

func (h *harness) until(ok func(*view.View) bool) {
	h.t.Helper()
	for {
		v, changed := h.views.Latest()
		if v != nil && ok(v) {
			return
		}
		select {
		case <-changed:
		case <-h.t.Context().Done():
			h.t.Fatal("the view does not show it")
		}
	}
}

// named answers that the platform names the instance's CVM after pg-0.
func named(_ context.Context, v *view.View, _, _ string) (groupName, slot string, ok bool) {
	_, bound := v.Policies["pg-0"]
	return "pg", "pg-0", !bound
}

// A Boot whose records are lost proves its identity. Once its instance is bound again, it is
// admitted under the same key.
func TestABootWhoseRecordsAreLostProvesItsIdentity(t *testing.T) {
	h := newHarness(t)
	cfg := h.cfg
	cfg.Unbound = named
	h.service = New(cfg)
	b := h.boot(composeText, h.seed)
	b.mustAdmit()
	before, _, err := store.Read[policy.SlotPolicy](t.Context(), h.store, store.SlotPolicyKey("pg-0"))
	if err != nil {
		t.Fatal(err)
	}
	h.loseSlot()

	// The Boot does not learn that it has lost the Slot, because it would stop its workload.
	if _, _, err := ended(t.Context(), h.store, "pg", "pg-0", b.id()); !errors.Is(err, errForgotten) {
		t.Errorf("a boot whose records are lost: %v", err)
	}
	if d, _, err := ended(t.Context(), h.store, "pg", "pg-0", strings.Repeat("0", 64)); err != nil || d.Code != policy.CodeIncarnationStale {
		t.Errorf("a boot that another one replaced: %+v, %v", d, err)
	}
	prove := func() error {
		b.connect()
		challenge, err := b.challenge()
		if err != nil {
			return err
		}
		req := b.request(challenge, nil)
		req.InUse = &admissionv1.CredentialsInUse{Vip: "127.50.7.1"}
		_, err = b.contact.Admit(t.Context(), req)
		return err
	}
	if err := prove(); err == nil || !strings.Contains(err.Error(), "cadre group adopt pg") {
		t.Fatalf("an unbound boot: %v", err)
	}
	p, _, err := store.Read[policy.Proof](t.Context(), h.store, store.ProofKey("pg-0"))
	if err != nil || p.Claims.InstanceID != b.info.InstanceID || p.Claims.ComposeHash != b.info.ComposeHash || p.BootID != b.id() ||
		p.VIP != "127.50.7.1" || p.ComposeTextSHA256 != before.Allowed[0].ComposeTextSHA256 || p.Group != "pg" {
		t.Fatalf("%+v, %v", p, err)
	}
	if d := policy.AppraiseProof(before, h.cfg.Images, p, h.now()); !d.Allowed {
		t.Errorf("its proof: %+v", d)
	}
	for _, key := range []string{store.AdmissionKey("pg-0"), store.SlotPolicyKey("pg-0")} {
		if _, err := h.store.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", key, err)
		}
	}

	// A revoked instance leaves no proof that could bind it.
	if err := h.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.ProofKey("pg-0")}); err != nil {
		t.Fatal(err)
	}
	h.write(store.RevocationKey("instance-"+b.info.InstanceID), policy.Revocation{Kind: policy.RevokedInstance, ID: b.info.InstanceID})
	h.wantRefusal(prove(), policy.CodePeerRevoked, "")
	if _, err := h.store.Get(t.Context(), store.ProofKey("pg-0")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the proof of a revoked instance: %v", err)
	}
	if err := h.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.RevocationKey("instance-" + b.info.InstanceID)}); err != nil {
		t.Fatal(err)
	}

	h.leader = nil
	h.write(store.SlotPolicyKey("pg-0"), before)
	h.write(store.SlotKey("pg", "pg-0"), map[string]any{"group": "pg", "slot": "pg-0", "vip": "127.50.7.1", "platform_name": "demo-pg-0"})
	h.until(func(v *view.View) bool { _, there := v.Policies["pg-0"]; return there })
	b.mustAdmit()
	if a, _, err := store.Read[policy.Admission](t.Context(), h.store, store.AdmissionKey("pg-0")); err != nil || a.BootID != b.id() {
		t.Errorf("%+v, %v", a, err)
	}
}

// An unbound instance proves nothing if the platform's name of its CVM refers to no Slot.
func TestAnUnboundInstanceThatThePlatformNamesAfterNoSlotProvesNothing(t *testing.T) {
	h := newHarness(t)
	cfg := h.cfg
	cfg.Unbound = func(context.Context, *view.View, string, string) (groupName, slot string, ok bool) {
		return "", "", false
	}
	h.service = New(cfg)
	b := h.boot(composeText, h.seed)
	h.loseSlot()
	b.connect()
	if _, err := b.challenge(); err == nil || !strings.Contains(err.Error(), "SLOT_UNKNOWN") {
		t.Errorf("challenge: %v", err)
	}
}
