package admission

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/sealed"
	"cadre.dev/core/secret"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// give writes the records of an operator's value, as the leader does.
func (h *harness) give(name string, epoch uint32, value string) {
	h.t.Helper()
	key, err := h.root.Sealing(h.t.Context(), secrets.KeyEpoch)
	if err != nil {
		h.t.Fatal(err)
	}
	at := sealed.Place{ClusterID: h.root.ClusterID(), Group: "pg", Name: name, Epoch: epoch, KeyEpoch: secrets.KeyEpoch}
	text, err := sealed.Seal(key.Public(), at, secret.FromString(value))
	if err != nil {
		h.t.Fatal(err)
	}
	for record, value := range map[string]any{
		store.SecretKey("pg", name): store.SecretRecord{Group: "pg", Name: name, Epoch: epoch, Sealed: store.SealedRef{SHA256: sealed.Digest(text), Bytes: len(value)}},
		store.SealedKey("pg", name): store.SealedSecret{Group: "pg", Name: name, Epoch: epoch, KeyEpoch: secrets.KeyEpoch, Ciphertext: text},
	} {
		raw, err := json.Marshal(value)
		if err != nil {
			h.t.Fatal(err)
		}
		h.put(record, string(raw))
	}
}

// TestTOK23_ABootWithoutAnOperatorsValueIsNotAdmitted: the refusal names the command. A running Boot
// renews without the value, and receives each value with its epoch.
func TestTOK23_ABootWithoutAnOperatorsValueIsNotAdmitted(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	inUse := &admissionv1.CredentialsInUse{TokensId: b.mustAdmit().GetCredentials().GetConsul().GetTokensId()}
	h.declared = []group.Secret{{Name: "s3-key", Source: group.SecretOperator, Owner: "70:70", Mode: "0440"}}
	of := func(c *admissionv1.Credentials) *admissionv1.Secret {
		t.Helper()
		if len(c.GetKeptSecrets()) != 0 {
			t.Errorf("kept %v", c.GetKeptSecrets())
		}
		if n := slices.IndexFunc(c.GetSecrets(), func(s *admissionv1.Secret) bool { return s.GetName() == "s3-key" }); n >= 0 {
			return c.GetSecrets()[n]
		}
		return nil
	}
	c, err := b.renewWith(inUse)
	if err != nil || of(c) != nil || len(c.GetSecrets()) != 3 {
		t.Fatalf("a running boot without the value: %v, %d secrets", err, len(c.GetSecrets()))
	}
	h.endLease()
	_, err = h.boot(composeText, h.seed).admit()
	wantCode(t, err, codes.Unavailable, policy.CodeSecretNoValue)
	if !strings.Contains(status.Convert(err).Message(), "cadre secret set pg/s3-key --from-file FILE") {
		t.Errorf("got %v, want the command", err)
	}
	h.endLease()
	h.give("s3-key", 1, "first value")
	b = h.boot(composeText, h.seed)
	got := of(b.mustAdmit().GetCredentials())
	if string(got.GetValue()) != "first value" || got.GetEpoch() != 1 || got.GetMode() != 0o440 || got.GetUid() != 70 || got.GetGid() != 70 {
		t.Errorf("at the admission: epoch %d, mode %o, %d:%d", got.GetEpoch(), got.GetMode(), got.GetUid(), got.GetGid())
	}
	h.give("s3-key", 2, "second value")
	if c, err = b.renew(); err != nil || string(of(c).GetValue()) != "second value" || of(c).GetEpoch() != 2 {
		t.Errorf("after another value: %v, epoch %d", err, of(c).GetEpoch())
	}
}
