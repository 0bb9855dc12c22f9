package admission

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// onFirstJudgement runs f between a renewal's decision and its issue, and counts the decisions.
func (h *harness) onFirstJudgement(f func() error) (judged *int) {
	judged = new(int)
	h.service.cfg.MayRenew = func(a policy.Admission, p policy.SlotPolicy, ip policy.ImagePolicy, now time.Time) policy.Decision {
		if *judged++; *judged == 1 {
			if err := f(); err != nil {
				h.t.Error(err)
			}
		}
		return policy.MayRenew(a, p, ip, now)
	}
	return judged
}

// recording records the tokens that were made.
type recording struct {
	Issuer
	made []tokens.Token
}

func (r *recording) Slot(ctx context.Context, h tokens.Holder) (tokens.Token, error) {
	token, err := r.Issuer.Slot(ctx, h)
	r.made = append(r.made, token)
	return token, err
}

// A lease in the View alone is not enough for a token.
func TestTOK03_LeaseLivesWhenTokensAreRecorded(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	b.mustAdmit()
	before := h.admission()
	issuer := &recording{Issuer: h.service.cfg.Issuer}
	h.service.cfg.Issuer = issuer
	judged := h.onFirstJudgement(func() error { h.endLease(); return nil })
	_, err := b.renew()
	wantCode(t, err, codes.Unavailable, codeUnreadable)
	if after := h.admission(); len(after.TokenAccessors) != len(before.TokenAccessors) || !after.ExpiresAt.Equal(before.ExpiresAt) {
		t.Errorf("recorded %+v", after)
	}
	if *judged != 1 || len(issuer.made) != 1 {
		t.Fatalf("judged %d times, %d tokens made; want it to be found out at the end", *judged, len(issuer.made))
	}
	if h.works(issuer.made[0].Secret) {
		t.Error("a token that was made in vain works")
	}
}

// A rotation that is not in the View yet counts, also that of a secret without an earlier record.
func TestTOK10_RenewalGivesTheEpochInForce(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	first := b.mustAdmit().GetCredentials()
	name := first.GetSecrets()[0].GetName()
	for epoch := uint32(2); epoch < 4; epoch++ {
		judged := h.onFirstJudgement(func() error {
			key := store.SecretKey("pg", name)
			_, index, err := store.Read[store.SecretRecord](t.Context(), h.store, key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			put, err := store.Put(key, store.SecretRecord{Group: "pg", Name: name, Epoch: epoch}, index)
			if err == nil {
				err = h.store.Commit(t.Context(), put)
			}
			return err
		})
		got := b.mustRenew()
		if got.GetSecrets()[0].GetEpoch() != epoch || *judged != 2 ||
			string(got.GetSecrets()[0].GetValue()) == string(first.GetSecrets()[0].GetValue()) {
			t.Errorf("epoch %d: judged %d times, got %s of epoch %d", epoch, *judged, name, got.GetSecrets()[0].GetEpoch())
		}
	}
}

// An outdated View never leads to a token. A coordinator knows its own writes, and finds out about
// others before it issues anything.
func TestAnOutdatedViewIssuesNothing(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	b.mustAdmit()
	views := view.NewWatcher(h.store, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- views.Run(ctx) }()
	for v, changed := views.Latest(); v == nil; v, _ = views.Latest() {
		<-changed
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	issuer := &recording{Issuer: h.service.cfg.Issuer}
	h.cfg.Views, h.cfg.Issuer, h.cfg.MayRenew = views, issuer, policy.MayRenew
	knows, other := New(h.cfg), h.coordinator("coordinator-1")
	for n, at := range []struct {
		*Service
		tokens int
	}{{knows, 1}, {knows, 1}, {knows, 1}, {other, 2}, {other, 1}} {
		h.service, issuer.made = at.Service, nil
		h.ahead.Add(int64(renewPause))
		out, err := h.service.renew(b.onSession(), b.addr(), &admissionv1.RenewRequest{BootId: b.id()})
		if err != nil {
			t.Fatal(err)
		}
		if len(issuer.made) != at.tokens || issuer.made[at.tokens-1].Secret != out.GetConsul().GetWorkloadToken() {
			t.Errorf("renewal %d: %d tokens made, want %d", n, len(issuer.made), at.tokens)
		}
		if at.tokens == 2 && h.works(issuer.made[0].Secret) {
			t.Error("a token that was made in vain works")
		}
	}
}
