package admission

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// operation records an open Operation of pg-0 whose platform call was made.
func (h *harness) operation(bootBefore string) {
	h.t.Helper()
	now := time.Now().UTC()
	put, err := store.Put(store.OperationKey("pg-1-0.1.pg-0"), operation.Operation{
		ID: "pg-1-0.1.pg-0", Group: "pg", Slot: "pg-0", Kind: operation.Update, Phase: operation.Joining,
		Before: operation.Before{BootID: bootBefore}, Call: operation.Call{IssuedAt: now}, Times: operation.Times{Created: now}, Entered: operation.PhaseTimes{},
	}, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.Commit(h.t.Context(), put); err != nil {
		h.t.Fatal(err)
	}
	for {
		v, changed := h.service.cfg.Views.Latest()
		if _, there := v.OpenOperation("pg-0"); there {
			return
		}
		select {
		case <-changed:
		case <-h.t.Context().Done():
			h.t.Fatal("the operation was not seen")
		}
	}
}

// TestRestartLetsOneBootIn: while a step is open, the expected Boot may replace the old one,
// although the old one still looks alive. A clone cannot replace the new Boot.
func TestRestartLetsOneBootIn(t *testing.T) {
	h := newHarness(t)
	old := h.boot(composeText, h.seed)
	old.mustAdmit()
	h.live[old.id()] = true
	h.operation(old.id())
	expected := h.boot(composeText, h.seed)
	expected.mustAdmit()
	h.live[expected.id()] = true
	_, err := h.boot(composeText, h.seed).admit()
	h.wantRefusal(err, codeConflict, codeConflict)
	if a := h.admission(); a.BootID != expected.id() {
		t.Error("a clone took the slot while the step was open")
	}
}

// A coordinator that has just started has not received reports of live Boots yet.
func TestANewlyStartedCoordinatorReplacesNoBoot(t *testing.T) {
	h := newHarness(t)
	h.service.cfg.Warmup = time.Hour
	first := h.boot(composeText, h.seed)
	first.mustAdmit() // a free Slot needs no warmup
	h.endLease()
	_, err := h.boot(composeText, h.seed).admit()
	h.wantRefusal(err, codeConflict, codeConflict)
	first.mustAdmit() // nor does a renewal
	h.endLease()
	h.service.cfg.Warmup = 0
	h.boot(composeText, h.seed).mustAdmit()
}

// failingIssuer fails while fail is set.
type failingIssuer struct {
	Issuer
	fail bool
}

func (f *failingIssuer) Slot(ctx context.Context, h tokens.Holder) (tokens.Token, error) {
	if f.fail {
		return tokens.Token{}, errors.New("no leader")
	}
	return f.Issuer.Slot(ctx, h)
}

// A Boot that lost its Slot has no rights left, even while its successor gets no token.
func TestOldTokensEndEvenIfNewOnesCannotBeIssued(t *testing.T) {
	h := newHarness(t)
	issuer := &failingIssuer{Issuer: h.service.cfg.Issuer}
	h.service.cfg.Issuer = issuer
	old := h.boot(composeText, h.seed).mustAdmit().GetCredentials().GetConsul()
	issuer.fail = true
	h.endLease()
	second := h.boot(composeText, h.seed)
	_, err := second.admit()
	h.wantRefusal(err, codeTokens, codeTokens)
	if _, _, err := h.as(old.GetWorkloadToken()).ACL().TokenReadSelf(nil); err == nil {
		t.Error("a token of the replaced boot still works")
	}
	issuer.fail = false
	second.mustAdmit()
}

// A refusal of genuine evidence is not displaced by refusals of unauthenticated callers.
func TestUnprovenRefusalsDoNotDisplaceAProvenOne(t *testing.T) {
	var n noted
	now := time.Now()
	genuine, junk := refuse("REVISION_NOT_ALLOWED", "").known(), refuse(codeQuote, "")
	for _, c := range []struct {
		after time.Duration
		r     *refusal
		want  bool
	}{
		{0, junk, true},
		{time.Second, junk, false},
		{time.Second, genuine, true},
		{time.Second, genuine, false},
		{5 * time.Second, junk, false},
		{time.Second, genuine, true},
		{unprovenEvery, junk, true},
	} {
		now = now.Add(c.after)
		if got := n.due(c.r, now); got != c.want {
			t.Errorf("%s at %v: due %v", c.r.code, now, got)
		}
	}
}

// A refusal record has the time since when a Boot is refused, and protects the refusal that the CVM
// itself proved.
func TestTheRecordOfARefusal(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(0, 0).Add(time.Duration(minute) * time.Minute) }
	own := policy.Refusal{BootID: "a", Code: "TCB_OUT_OF_DATE", Proven: true, Since: at(1), At: at(5)}
	for name, c := range map[string]struct {
		before, next policy.Refusal
		write        bool
		since        time.Time
	}{
		"the first":            {policy.Refusal{}, policy.Refusal{BootID: "a", At: at(1)}, true, at(1)},
		"the same again":       {own, policy.Refusal{BootID: "a", Code: own.Code, Proven: true, At: at(6)}, true, at(1)},
		"for another reason":   {own, policy.Refusal{BootID: "a", Code: "REVISION_NOT_ALLOWED", Proven: true, At: at(6)}, true, at(6)},
		"another boot":         {own, policy.Refusal{BootID: "b", Code: own.Code, Proven: true, At: at(6)}, true, at(6)},
		"unproven":             {own, policy.Refusal{BootID: "a", Code: own.Code, At: at(6)}, false, at(1)},
		"unproven, long after": {own, policy.Refusal{BootID: "c", Code: codeQuote, At: at(20)}, true, at(20)},
		"of an older version, which says nothing of since": {policy.Refusal{BootID: "a", At: at(2)}, policy.Refusal{BootID: "a", At: at(3)}, true, at(2)},
	} {
		got, write := after(c.before, c.next)
		if write != c.write || !got.Since.Equal(c.since) {
			t.Errorf("%s: %+v, written %v", name, got, write)
		}
	}
}

func TestOnlyP256KeysAreAdmitted(t *testing.T) {
	_, err := (&Service{}).contact(tls.ConnectionState{PeerCertificates: []*x509.Certificate{{PublicKey: ed25519.PublicKey(make([]byte, 32))}}})
	if r, ok := errors.AsType[*refusal](err); !ok || r.code != codeKey {
		t.Errorf("an Ed25519 key: %v", err)
	}
}
