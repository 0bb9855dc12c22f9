package admission

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// TestTOK15_LostAnswersNeverEndTheTokenInUse: a Boot may renew or attest many times without
// receiving an answer. The token that it reports as in use stays valid, and the number of its
// tokens stays bounded. Once it reports a newer token, the older ones end.
func TestTOK15_LostAnswersNeverEndTheTokenInUse(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	inUse := b.mustAdmit().GetCredentials().GetConsul()
	uses := func(c *admissionv1.ConsulCredentials) *admissionv1.CredentialsInUse {
		return &admissionv1.CredentialsInUse{TokensId: c.GetTokensId()}
	}
	if inUse.GetTokensId() == "" || strings.Contains(inUse.GetTokensId(), inUse.GetWorkloadToken()) {
		t.Fatalf("the token is named %q", inUse.GetTokensId())
	}
	var newest *admissionv1.ConsulCredentials
	for n := range 12 { // each answer is lost
		if n == 6 {
			h.ahead.Add(int64(settled)) // no coordinator was reachable for a while
		}
		c, err := b.renewWith(uses(inUse))
		if err != nil {
			t.Fatal(err)
		}
		newest = c.GetConsul()
		if !h.works(inUse.GetWorkloadToken()) {
			t.Fatalf("after %d lost answers the token in use ended", n+1)
		}
		if have := len(h.admission().TokenAccessors); have > maxTokens {
			t.Fatalf("after %d lost answers the boot has %d tokens", n+1, have)
		}
	}
	b.connect()
	challenge, err := b.challenge()
	if err != nil {
		t.Fatal(err)
	}
	again := b.request(challenge, nil)
	again.InUse = uses(inUse)
	if _, err := b.contact.Admit(t.Context(), again); err != nil || !h.works(inUse.GetWorkloadToken()) {
		t.Fatalf("an admission whose answer was lost ended the token in use (%v)", err)
	}
	h.ahead.Add(int64(settled))
	last, err := b.renewWith(uses(newest))
	if err != nil {
		t.Fatal(err)
	}
	if h.works(inUse.GetWorkloadToken()) || !h.works(newest.GetWorkloadToken()) || !h.works(last.GetConsul().GetWorkloadToken()) {
		t.Error("once the boot lives with the newer token it has that and the newest alone")
	}
	// An unknown token name, or that of another Boot, keeps no token.
	h.ahead.Add(int64(settled))
	if _, err := b.renewWith(&admissionv1.CredentialsInUse{TokensId: inUse.GetTokensId()}); err != nil || h.works(inUse.GetWorkloadToken()) || len(h.admission().TokenAccessors) != 2 {
		t.Errorf("a token that was revoked is back: %v, %d tokens", err, len(h.admission().TokenAccessors))
	}
}

func TestRotate(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		have, inUse  string
		age          time.Duration
		keep, revoke string
	}{
		"first":                             {"", "", time.Hour, "n", ""},
		"settled":                           {"1", "", settled, "1 n", ""},
		"the one before the last":           {"1 2", "", settled, "2 n", "1"},
		"a lost answer":                     {"1 2", "", time.Second, "1 2 n", ""},
		"many lost answers":                 {"1 2 3 4", "", time.Second, "1 2 4 n", "3"},
		"another boot's":                    {"1", "1", -1, "n", "1"},
		"in use, settled":                   {"1 2", "1", settled, "1 n", "2"},
		"the newest in use, settled":        {"1 2", "2", settled, "2 n", "1"},
		"in use, many lost answers":         {"1 2 3 4", "1", time.Second, "1 3 4 n", "2"},
		"in the middle":                     {"1 2 3 4", "2", time.Second, "2 3 4 n", "1"},
		"replaced a moment ago":             {"1 2", "2", time.Second, "1 2 n", ""},
		"the newest in use, three before":   {"1 2 3 4", "4", time.Second, "2 3 4 n", "1"},
		"a name that is none of the boot's": {"1 2", "x", settled, "2 n", "1"},
	} {
		admission := policy.Admission{TokenAccessors: strings.Fields(c.have)}
		if c.age >= 0 {
			admission.TokensAt = now.Add(-c.age)
		}
		keep, revoke := rotate(admission, c.inUse, "n", now)
		if strings.Join(keep, " ") != c.keep || strings.Join(revoke, " ") != c.revoke {
			t.Errorf("%s: keep %v, revoke %v", name, keep, revoke)
		}
	}
}
