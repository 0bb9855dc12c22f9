package admission

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// TestTOK15_LostAnswersNeverEndThePairInUse: however often a Boot renews without getting
// anything, by renewal or by admission, what it says it uses works, and what it has stays
// bounded. Once it says that it uses a newer pair, the older ones end.
func TestTOK15_LostAnswersNeverEndThePairInUse(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	inUse := b.mustAdmit().GetCredentials().GetConsul()
	uses := func(c *admissionv1.ConsulCredentials) *admissionv1.Held {
		return &admissionv1.Held{TokensId: c.GetTokensId()}
	}
	if inUse.GetTokensId() == "" || strings.Contains(inUse.GetTokensId(), inUse.GetWorkloadToken()) {
		t.Fatalf("the tokens are named %q", inUse.GetTokensId())
	}
	var newest *admissionv1.ConsulCredentials
	for n := range 12 { // each answer is lost
		if n == 6 {
			h.ahead.Add(int64(settled)) // no coordinator was reachable for a while
		}
		c, err := b.renewHolding(uses(inUse))
		if err != nil {
			t.Fatal(err)
		}
		newest = c.GetConsul()
		if !h.works(inUse.GetWorkloadToken()) {
			t.Fatalf("after %d lost answers the pair in use ended", n+1)
		}
		if have := len(h.admission().TokenAccessors); have > maxPairs*tokensPerBoot {
			t.Fatalf("after %d lost answers the boot has %d tokens", n+1, have)
		}
	}
	b.connect()
	challenge, err := b.challenge()
	if err != nil {
		t.Fatal(err)
	}
	again := b.request(challenge, nil)
	again.Held = uses(inUse)
	if _, err := b.contact.Admit(t.Context(), again); err != nil || !h.works(inUse.GetWorkloadToken()) {
		t.Fatalf("an admission whose answer was lost ended the pair in use (%v)", err)
	}
	h.ahead.Add(int64(settled))
	last, err := b.renewHolding(uses(newest))
	if err != nil {
		t.Fatal(err)
	}
	if h.works(inUse.GetWorkloadToken()) || !h.works(newest.GetWorkloadToken()) || !h.works(last.GetConsul().GetWorkloadToken()) {
		t.Error("once the boot lives with the newer pair it has that and the newest alone")
	}
	// A name that is nobody's, or another Boot's, keeps nothing.
	h.ahead.Add(int64(settled))
	if _, err := b.renewHolding(&admissionv1.Held{TokensId: inUse.GetTokensId()}); err != nil || h.works(inUse.GetWorkloadToken()) || len(h.admission().TokenAccessors) != 4 {
		t.Errorf("a pair that was revoked is back: %v, %d tokens", err, len(h.admission().TokenAccessors))
	}
}

func TestRotate(t *testing.T) {
	now := time.Now()
	pair := func(name string) tokens.Pair {
		return tokens.Pair{Agent: tokens.Token{Accessor: name + "a"}, Workload: tokens.Token{Accessor: name + "w"}}
	}
	for name, c := range map[string]struct {
		have, inUse  string
		age          time.Duration
		keep, revoke string
	}{
		"first":                             {"", "", time.Hour, "na nw", ""},
		"settled":                           {"1a 1w", "", settled, "1a 1w na nw", ""},
		"the pair before the last":          {"1a 1w 2a 2w", "", settled, "2a 2w na nw", "1a 1w"},
		"a lost answer":                     {"1a 1w 2a 2w", "", time.Second, "1a 1w 2a 2w na nw", ""},
		"many lost answers":                 {"1a 1w 2a 2w 3a 3w 4a 4w", "", time.Second, "1a 1w 2a 2w 4a 4w na nw", "3a 3w"},
		"another boot's":                    {"1a 1w", "1w", -1, "na nw", "1a 1w"},
		"in use, settled":                   {"1a 1w 2a 2w", "1w", settled, "1a 1w na nw", "2a 2w"},
		"the newest in use, settled":        {"1a 1w 2a 2w", "2w", settled, "2a 2w na nw", "1a 1w"},
		"in use, many lost answers":         {"1a 1w 2a 2w 3a 3w 4a 4w", "1w", time.Second, "1a 1w 3a 3w 4a 4w na nw", "2a 2w"},
		"in the middle":                     {"1a 1w 2a 2w 3a 3w 4a 4w", "2w", time.Second, "2a 2w 3a 3w 4a 4w na nw", "1a 1w"},
		"replaced a moment ago":             {"1a 1w 2a 2w", "2w", time.Second, "1a 1w 2a 2w na nw", ""},
		"the newest in use, three before":   {"1a 1w 2a 2w 3a 3w 4a 4w", "4w", time.Second, "2a 2w 3a 3w 4a 4w na nw", "1a 1w"},
		"a name that is none of the boot's": {"1a 1w 2a 2w", "xw", settled, "2a 2w na nw", "1a 1w"},
	} {
		held := policy.Admission{TokenAccessors: strings.Fields(c.have)}
		if c.age >= 0 {
			held.TokensAt = now.Add(-c.age)
		}
		keep, revoke := rotate(held, c.inUse, pair("n"), now)
		if strings.Join(keep, " ") != c.keep || strings.Join(revoke, " ") != c.revoke {
			t.Errorf("%s: keep %v, revoke %v", name, keep, revoke)
		}
	}
}
