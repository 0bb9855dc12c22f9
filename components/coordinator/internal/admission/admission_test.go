package admission

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/attest/statement"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

func TestAdmission(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	out := b.mustAdmit()

	creds := out.GetCredentials()
	block, _ := pem.Decode(creds.GetSvidChainPem())
	svid, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if len(svid.URIs) != 1 || svid.URIs[0].String() != "spiffe://demo/pg/pg-0" || !bytes.Equal(svid.RawSubjectPublicKeyInfo, b.spki) {
		t.Errorf("SVID names %v", svid.URIs)
	}
	if creds.GetBootId() != b.id() || creds.GetVip() != "127.50.1.1" || creds.GetRevision() != revision || len(creds.GetSecrets()) != 3 {
		t.Errorf("credentials: boot %s vip %s revision %s", creds.GetBootId(), creds.GetVip(), creds.GetRevision())
	}
	if len(out.GetInitialPeers()) != 1 {
		t.Errorf("initial peers: %v", out.GetInitialPeers())
	}
	a := h.admission()
	if a.BootID != b.id() || a.Generation != 1 || len(a.TokenAccessors) != 1 || !a.Simulated {
		t.Errorf("admission: %+v", a)
	}
	workload := h.as(creds.GetConsul().GetWorkloadToken()).KV()
	if _, err := workload.Put(&consul.KVPair{Key: "service/pg/leader"}, nil); err != nil {
		t.Errorf("own scope: %v", err)
	}
	for _, key := range []string{"service/other/leader", "cadre/v1/groups/pg/spec", "cadre/v1/policy/slots/pg-0"} {
		if _, err := workload.Put(&consul.KVPair{Key: key}, nil); err == nil {
			t.Errorf("the workload token writes %s", key)
		}
	}
}

func TestPLT02_NewBootTakesOverAndOldTokensEnd(t *testing.T) {
	h := newHarness(t)
	first := h.boot(composeText, h.seed)
	old := first.mustAdmit().GetCredentials().GetConsul()
	second := h.boot(composeText, h.seed)
	_, err := second.admit()
	h.wantRefusal(err, codeConflict, codeConflict)
	h.endLease()
	second.mustAdmit()
	if a := h.admission(); a.BootID != second.id() || a.Generation != 2 || len(a.TokenAccessors) != 1 {
		t.Errorf("admission: %+v", a)
	}
	if _, _, err := h.as(old.GetWorkloadToken()).ACL().TokenReadSelf(nil); err == nil {
		t.Error("the token of the replaced boot still works")
	}
}

func TestRenewalKeepsGenerationAndTheTokensInUse(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	old := b.mustAdmit().GetCredentials().GetConsul()
	h.ahead.Add(int64(settled))
	b.mustAdmit()
	if a := h.admission(); a.Generation != 1 || len(a.TokenAccessors) != 2 {
		t.Errorf("admission: %+v", a)
	}
	if _, _, err := h.as(old.GetWorkloadToken()).ACL().TokenReadSelf(nil); err != nil {
		t.Errorf("the token in use: %v", err)
	}
	h.ahead.Add(int64(settled))
	b.mustAdmit()
	if a := h.admission(); len(a.TokenAccessors) != 2 {
		t.Errorf("accessors: %d, want the last two", len(a.TokenAccessors))
	}
	if _, _, err := h.as(old.GetWorkloadToken()).ACL().TokenReadSelf(nil); err == nil {
		t.Error("the token before the last still works")
	}
}

func TestRefusals(t *testing.T) {
	h := newHarness(t)
	run := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			h.service.mu.Lock()
			clear(h.service.noted) // each case records its refusal
			h.service.mu.Unlock()
			if err := h.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.RefusalKey("pg-0")}); err != nil {
				t.Fatal(err)
			}
			test(t)
		})
	}
	challenged := func(b *boot) *admissionv1.ChallengeResponse {
		c, err := b.challenge()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	run("instance that no slot is bound to", func(t *testing.T) {
		_, err := h.boot(composeText, bytes.Repeat([]byte{8}, 20)).challenge()
		h.wantRefusal(err, codeUnknown, "")
		if status.Code(err) != codes.Unavailable {
			t.Errorf("code %v, want a retryable code", status.Code(err))
		}
	})
	run("revision that is not allowed", func(*testing.T) {
		_, err := h.boot(composeText+"# other\n", h.seed).admit()
		h.wantRefusal(err, "REVISION_NOT_ALLOWED", "REVISION_NOT_ALLOWED")
	})
	run("statement changed after the quote", func(t *testing.T) {
		b := h.boot(composeText, h.seed)
		c := challenged(b)
		req, other := b.request(c, nil), b.request(c, func(s *statement.Agent) { s.ComposeHash = "00" + s.ComposeHash[2:] })
		req.Statement = other.GetStatement()
		_, err := b.contact.Admit(t.Context(), req)
		// The evidence proves nothing, so the caller learns nothing.
		h.wantRefusal(err, codeRejected, "REPORT_DATA_MISMATCH")
	})
	run("statement about another slot", func(t *testing.T) {
		b := h.boot(composeText, h.seed)
		_, err := b.contact.Admit(t.Context(), b.request(challenged(b), func(s *statement.Agent) { s.Slot = "pg-1" }))
		h.wantRefusal(err, codeRejected, "SLOT_MISMATCH")
	})
	run("nonce of another connection", func(t *testing.T) {
		b := h.boot(composeText, h.seed)
		c := challenged(b)
		b.connect()
		_, err := b.contact.Admit(t.Context(), b.request(c, nil))
		h.wantRefusal(err, codeNonce, codeNonce)
	})
	first := h.boot(composeText, h.seed)
	run("replayed nonce", func(t *testing.T) {
		req := first.request(challenged(first), nil)
		if _, err := first.contact.Admit(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		_, err := first.contact.Admit(t.Context(), req)
		h.wantRefusal(err, codeNonce, codeNonce)
	})
	run("clone of a live boot", func(t *testing.T) {
		h.live[first.id()] = true
		_, err := h.boot(composeText, h.seed).admit()
		h.wantRefusal(err, codeConflict, codeConflict)
		if a := h.admission(); a.BootID != first.id() {
			t.Error("the clone took the slot")
		}
	})
}
