package admission

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"cadre.dev/coordinator/internal/tokens"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// TestARenewalKeepsTheTokenAndWritesNothing: a Boot that uses the newest token gets a fresh
// certificate and no new token, and the renewal writes nothing to Consul. The Boot gets a new token
// once half of the token's life is over, when the rules of tokens have changed, or when the Boot
// uses an older token.
func TestARenewalKeepsTheTokenAndWritesNothing(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	first := b.mustAdmit().GetCredentials()
	holding := func(c *admissionv1.ConsulCredentials) *admissionv1.CredentialsInUse {
		return &admissionv1.CredentialsInUse{TokensId: c.GetTokensId(), KeepsToken: true}
	}
	renewed := func(c *admissionv1.ConsulCredentials) *admissionv1.Credentials {
		t.Helper()
		out, err := b.renewWith(holding(c))
		if err != nil {
			t.Fatal(err)
		}
		if len(out.GetSvidChainPem()) == 0 || slices.Equal(out.GetSvidChainPem(), first.GetSvidChainPem()) || len(out.GetSecrets()) != 3 {
			t.Error("the rest is not fresh")
		}
		return out
	}
	before := h.admission()
	for range 3 {
		out := renewed(first.GetConsul()).GetConsul()
		if !out.GetTokenKept() || out.GetTokensId() != first.GetConsul().GetTokensId() || out.GetWorkloadToken() != "" || out.GetTokensExpireAt() != nil {
			t.Fatalf("answered %v", out)
		}
	}
	if after := h.admission(); !after.TokensAt.Equal(before.TokensAt) || !slices.Equal(after.TokenAccessors, before.TokenAccessors) || !h.works(first.GetConsul().GetWorkloadToken()) {
		t.Errorf("recorded %+v, was %+v", after, before)
	}

	// A Boot that does not offer to keep its token gets a new one.
	second := b.mustRenew().GetConsul()
	if second.GetTokenKept() || second.GetWorkloadToken() == "" {
		t.Fatalf("answered %v", second)
	}
	// The answer was lost: the Boot still uses the first token.
	third := renewed(first.GetConsul()).GetConsul()
	if third.GetTokenKept() || !h.works(first.GetConsul().GetWorkloadToken()) {
		t.Fatalf("an older token is in use: %v", third)
	}
	// With the newest token in use the older ones end, once the workload has had time to switch.
	if out := renewed(third).GetConsul(); !out.GetTokenKept() || !h.works(first.GetConsul().GetWorkloadToken()) {
		t.Errorf("the newest has just come: %v", out)
	}
	h.ahead.Add(int64(settled))
	if out := renewed(third).GetConsul(); !out.GetTokenKept() || len(h.admission().TokenAccessors) != 1 || h.works(first.GetConsul().GetWorkloadToken()) || !h.works(third.GetWorkloadToken()) {
		t.Errorf("the newest is in use: %v, %+v", out, h.admission())
	}

	ruled := &otherRules{Issuer: h.service.cfg.Issuer}
	h.service.cfg.Issuer = ruled
	fourth := renewed(third).GetConsul()
	if fourth.GetTokenKept() || fourth.GetWorkloadToken() == "" {
		t.Errorf("the token may do something else: %v", fourth)
	}
	if out := renewed(fourth).GetConsul(); !out.GetTokenKept() {
		t.Errorf("the token has the current rules: %v", out)
	}
	h.ahead.Add(int64(tokens.TTL / 2))
	if out := renewed(fourth).GetConsul(); out.GetTokenKept() {
		t.Errorf("half of its life is over: %v", out)
	}
}

// otherRules returns different rules for tokens.
type otherRules struct{ Issuer }

func (otherRules) Rules(tokens.Holder) string { return "other" }

// A renewal that writes nothing is still judged by the current records, and not by a View alone.
func TestARenewalThatKeepsTheTokenNeedsALease(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	c := b.mustAdmit().GetCredentials().GetConsul()
	h.onFirstJudgement(func() error { h.endLease(); return nil })
	_, err := b.renewWith(&admissionv1.CredentialsInUse{TokensId: c.GetTokensId(), KeepsToken: true})
	wantCode(t, err, codes.Unavailable, codeUnreadable)
}
