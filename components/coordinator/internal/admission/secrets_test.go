package admission

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

func (h *harness) put(key, text string) {
	h.t.Helper()
	if err := h.store.Commit(h.t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte(text)}); err != nil {
		h.t.Fatal(err)
	}
}

// TestTOK15_UnreadableEpochsDoNotEndARunningBoot: an unreadable record of a secret leaves the Boots
// that have a value unaffected. A Boot without a value gets a refusal that names the record.
func TestTOK15_UnreadableEpochsDoNotEndARunningBoot(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	has := b.mustAdmit().GetCredentials().GetConsul()
	inUse := &admissionv1.CredentialsInUse{TokensId: has.GetTokensId()}
	bad := store.SecretKey("pg", "superuser")
	h.put(bad, `{"group":"pg","name":"superuser","epoch":"many"}`)
	h.put(store.SecretKey(store.ClusterSecrets, store.GossipSecret), `nonsense`)
	kept := func(c *admissionv1.Credentials, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var given []string
		for _, s := range c.GetSecrets() {
			given = append(given, s.GetName())
		}
		if !slices.Equal(given, []string{"replication", "rewind"}) || !slices.Equal(c.GetKeptSecrets(), []string{"superuser"}) {
			t.Errorf("given %v, kept %v", given, c.GetKeptSecrets())
		}
		if !h.works(c.GetConsul().GetWorkloadToken()) {
			t.Error("the token does not work")
		}
	}
	kept(b.renewWith(inUse))
	// The same Boot attests again.
	admitHolding := func(b *boot) (*admissionv1.Credentials, error) {
		t.Helper()
		b.connect()
		c, err := b.challenge()
		if err != nil {
			t.Fatal(err)
		}
		req := b.request(c, nil)
		req.InUse = inUse
		out, err := b.contact.Admit(t.Context(), req)
		return out.GetCredentials(), err
	}
	kept(admitHolding(b))
	// An older agent would treat omitted secrets as undeclared, so it gets a refusal.
	_, err := b.renew()
	wantCode(t, err, codes.Unavailable, policy.CodeGateUnreadable)
	// A Boot without values gets a refusal, even if it reports values.
	h.endLease()
	other := h.boot(composeText, h.seed)
	for _, one := range []func() error{
		func() error { _, err := other.admit(); return err },
		func() error {
			_, err := admitHolding(h.boot(composeText, h.seed))
			return err
		},
	} {
		err := one()
		wantCode(t, err, codes.Unavailable, policy.CodeGateUnreadable)
		if !strings.Contains(status.Convert(err).Message(), "record "+bad) {
			t.Errorf("got %v, want the record's name", err)
		}
		h.endLease()
	}
	h.put(bad, `{"group":"pg","name":"superuser","epoch":3,"rotated_at":"2026-01-01T00:00:00Z"}`)
	now, err := h.boot(composeText, h.seed).admit()
	if err != nil {
		t.Fatal(err)
	}
	c := now.GetCredentials()
	if len(c.GetSecrets()) != 3 || c.GetSecrets()[2].GetEpoch() != 3 || len(c.GetKeptSecrets()) != 0 {
		t.Errorf("after the repair: %d secrets, kept %v", len(c.GetSecrets()), c.GetKeptSecrets())
	}
}
