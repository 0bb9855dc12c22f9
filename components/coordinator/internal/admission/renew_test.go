package admission

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

func (b *boot) addr() overlay.Addr {
	return overlay.Addr{ID: overlay.ID{Cluster: "demo", Group: "pg", Slot: "pg-0"}, BootID: b.id(), PublicKey: string(b.spki)}
}

// onSession returns the context of a call on the control session of a Boot.
func (b *boot) onSession(change ...func(*overlay.Addr)) context.Context {
	caller := b.addr()
	for _, c := range change {
		c(&caller)
	}
	return peer.NewContext(b.h.t.Context(), &peer.Peer{Addr: caller})
}

func (b *boot) renew(change ...func(*overlay.Addr)) (*admissionv1.Credentials, error) {
	b.h.t.Helper()
	return b.renewWith(nil, change...)
}

// renewWith renews as a Boot that reports the credentials in inUse.
func (b *boot) renewWith(inUse *admissionv1.CredentialsInUse, change ...func(*overlay.Addr)) (*admissionv1.Credentials, error) {
	b.h.t.Helper()
	b.h.ahead.Add(int64(renewPause))
	b.h.settle()
	out, err := b.h.service.Credentials().Renew(b.onSession(change...), &admissionv1.RenewRequest{BootId: b.id(), InUse: inUse})
	return out.GetCredentials(), err
}

func (b *boot) mustRenew() *admissionv1.Credentials {
	b.h.t.Helper()
	out, err := b.renew()
	if err != nil {
		b.h.t.Fatal(err)
	}
	return out
}

// settle waits until the View has the current records of the Slot.
func (h *harness) settle() {
	h.t.Helper()
	_, index, err := store.Read[policy.Admission](h.t.Context(), h.store, store.AdmissionKey("pg-0"))
	if errors.Is(err, store.ErrNotFound) {
		return
	}
	if err != nil {
		h.t.Fatal(err)
	}
	for {
		v, changed := h.service.cfg.Views.Latest()
		if v.Admissions["pg-0"].Index >= index {
			return
		}
		select {
		case <-changed:
		case <-h.t.Context().Done():
			h.t.Fatal("the admission was not seen")
		}
	}
}

func (h *harness) works(token string) bool {
	_, _, err := h.as(token).ACL().TokenReadSelf(nil)
	return err == nil
}

func wantCode(t *testing.T, err error, grpcCode codes.Code, code policy.Code) {
	t.Helper()
	if status.Code(err) != grpcCode || !strings.HasPrefix(status.Convert(err).Message(), string(code)+":") {
		t.Errorf("answer %v, want %v %s", err, grpcCode, code)
	}
}

// lives returns the lifetimes of all credentials in one answer, from now.
func lives(t *testing.T, c *admissionv1.Credentials, now time.Time) map[string]time.Duration {
	t.Helper()
	out := map[string]time.Duration{"tokens": c.GetConsul().GetTokensExpireAt().AsTime().Sub(now), "answer": c.GetExpiresAt().AsTime().Sub(now)}
	for name, text := range map[string][]byte{"svid": c.GetSvidChainPem()} {
		block, _ := pem.Decode(text)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if now.Sub(cert.NotBefore) < 4*time.Minute {
			t.Errorf("%s: not before %v, want it back-dated", name, cert.NotBefore)
		}
		if len(cert.Subject.Organization) != 1 || cert.Subject.Organization[0] != "SIMULATED" {
			t.Errorf("%s: subject %v, want it marked", name, cert.Subject)
		}
		out[name] = cert.NotAfter.Sub(now)
	}
	return out
}

func TestTOK02_CredentialsExpireSoon(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	for _, c := range []*admissionv1.Credentials{b.mustAdmit().GetCredentials(), b.mustRenew()} {
		for name, life := range lives(t, c, h.now()) {
			most := 75 * time.Minute
			if name == "tokens" {
				most = tokens.TTL
			}
			if life <= most/2 || life > most+time.Second {
				t.Errorf("%s live for %v, want about %v", name, life, most)
			}
		}
	}
}

func TestRenewalGivesEverythingFresh(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	first := b.mustAdmit().GetCredentials()
	second := b.mustRenew()
	if string(first.GetSvidChainPem()) == string(second.GetSvidChainPem()) || first.GetConsul().GetWorkloadToken() == second.GetConsul().GetWorkloadToken() {
		t.Error("something is not fresh")
	}
	if second.GetGeneration() != first.GetGeneration() || second.GetVip() != first.GetVip() || second.GetRevision() != first.GetRevision() ||
		second.GetPolicyEpoch() != first.GetPolicyEpoch() || len(second.GetSecrets()) != 3 || !second.GetReattestBy().AsTime().Equal(first.GetReattestBy().AsTime()) {
		t.Errorf("renewed: %v", second)
	}
	block, _ := pem.Decode(second.GetSvidChainPem())
	svid, err := x509.ParseCertificate(block.Bytes)
	if err != nil || string(svid.RawSubjectPublicKeyInfo) != string(b.spki) {
		t.Errorf("the SVID is for another key (%v)", err)
	}
	if a := h.admission(); len(a.TokenAccessors) != 2 || a.ExpiresAt.Unix() != second.GetConsul().GetTokensExpireAt().AsTime().Unix() {
		t.Errorf("record: %+v", a)
	}
}

// TestTOK03_Renewal: each condition is false in turn.
func TestTOK03_Renewal(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	if _, err := b.renew(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without an admission: %v", err)
	}
	b.mustAdmit()
	h.endLease()
	// The keeper has ended while the Boot lives: credentials are issued again once the lease is
	// kept.
	_, err := b.renew()
	wantCode(t, err, codes.Unavailable, codeUnreadable)
	b.mustAdmit()
	b.mustRenew()
	for _, code := range []policy.Code{policy.CodeRenewDenied, policy.CodeRevisionNotAllowed, policy.CodePeerRevoked} {
		h.service.cfg.MayRenew = func(policy.Admission, policy.SlotPolicy, policy.ImagePolicy, time.Time) policy.Decision {
			return policy.Decision{Code: code, Message: "no"}
		}
		_, err = b.renew()
		wantCode(t, err, codes.PermissionDenied, code)
	}
	h.service.cfg.MayRenew = policy.MayRenew
	_, err = b.renew(func(a *overlay.Addr) { a.ID.Group = "web" })
	wantCode(t, err, codes.PermissionDenied, policy.CodeRenewDenied)
	other := h.boot(composeText, h.seed)
	_, err = other.renew()
	wantCode(t, err, codes.PermissionDenied, codeStale)
	h.endLease()
	other.mustAdmit()
	_, err = b.renew() // a zombie
	wantCode(t, err, codes.PermissionDenied, codeStale)
	h.ahead.Add(int64(policy.ReattestAfter))
	_, err = other.renew()
	wantCode(t, err, codes.FailedPrecondition, policy.CodeReattestRequired)
	if _, err := h.service.Credentials().Renew(t.Context(), &admissionv1.RenewRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a session: %v", err)
	}
}

// An outdated View decides nothing.
func TestTOK03_RenewalIsJudgedByPresentRecords(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	b.mustAdmit()
	h.settle()
	sp, index, err := store.Read[policy.SlotPolicy](t.Context(), h.store, store.SlotPolicyKey("pg-0"))
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	h.service.cfg.MayRenew = func(a policy.Admission, p policy.SlotPolicy, ip policy.ImagePolicy, now time.Time) policy.Decision {
		if judged++; judged == 1 {
			// The leader changes the policy between decision and issue.
			sp.Epoch++
			put, err := store.Put(store.SlotPolicyKey("pg-0"), sp, index)
			if err == nil {
				err = h.store.Commit(t.Context(), put)
			}
			if err != nil {
				t.Error(err)
			}
		}
		return policy.MayRenew(a, p, ip, now)
	}
	before := h.admission().TokenAccessors
	_, err = b.renew()
	wantCode(t, err, codes.FailedPrecondition, policy.CodeReattestRequired)
	if after := h.admission().TokenAccessors; judged != 2 || len(after) != len(before) {
		t.Errorf("judged %d times, %d tokens recorded", judged, len(after)-len(before))
	}
}

// The key is that of the Session, and only the admitted key is renewed.
func TestIDN13_AnotherKeyIsNotRenewed(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	b.mustAdmit()
	other := h.boot(composeText, h.seed)
	_, err := b.renew(func(a *overlay.Addr) { a.PublicKey = string(other.spki) })
	wantCode(t, err, codes.PermissionDenied, policy.CodeRenewDenied)
	_, err = b.renew(func(a *overlay.Addr) { a.PublicKey = "" })
	wantCode(t, err, codes.PermissionDenied, policy.CodeRenewDenied)
	h.ahead.Add(int64(renewPause))
	_, err = h.service.Credentials().Renew(b.onSession(), &admissionv1.RenewRequest{BootId: other.id()})
	wantCode(t, err, codes.PermissionDenied, policy.CodeRenewDenied)
}

// crashing simulates a coordinator that crashes during the issue.
type crashing struct {
	Issuer
	made []tokens.Token
}

func (c *crashing) Slot(ctx context.Context, h tokens.Holder) (tokens.Token, error) {
	token, err := c.Issuer.Slot(ctx, h)
	c.made = append(c.made, token)
	return token, err
}

// Revoke revokes nothing: the process is gone.
func (c *crashing) Revoke(context.Context, ...string) error { return nil }

// brokenStore loses every write.
type brokenStore struct{ store.Store }

func (brokenStore) Commit(context.Context, ...store.Op) error { return store.ErrUnknown }

// Tokens that were made and not recorded reach no Boot and are swept. Recorded tokens that were not
// delivered do not end the token in use.
func TestTOK12_CrashBetweenMintAndDelivery(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	inUse := b.mustAdmit().GetCredentials().GetConsul().GetWorkloadToken()
	h.ahead.Add(int64(settled))
	issuer := &crashing{Issuer: h.service.cfg.Issuer}
	whole := h.service.store
	h.service.cfg.Issuer, h.service.store = issuer, brokenStore{whole}
	if out, err := b.renew(); err == nil {
		t.Fatalf("unrecorded tokens are given out: %v", out)
	}
	h.service.cfg.Issuer, h.service.store = issuer.Issuer, whole
	b.mustRenew() // the answer is lost
	b.mustRenew() // this answer too
	if !h.works(inUse) {
		t.Error("the token in use ended before the boot got a newer one")
	}
	got := b.mustRenew().GetConsul().GetWorkloadToken()
	h.ahead.Add(int64(settled))
	b.mustRenew()
	if h.works(inUse) || !h.works(got) {
		t.Error("once the boot lives with the newer token it has that and the newest alone")
	}
	issued, err := tokens.New(h.consul, h.management, tokens.TTL)
	if err != nil {
		t.Fatal(err)
	}
	owned, err := issued.SlotTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	recorded := h.admission().TokenAccessors
	var lost []string
	for _, o := range tokens.Unrecorded(owned, func(_, accessor string) bool { return slices.Contains(recorded, accessor) }, time.Now().Add(5*time.Minute)) {
		lost = append(lost, o.Accessor)
	}
	if made := issuer.made[0].Accessor; !slices.Equal(lost, []string{made}) {
		t.Errorf("unrecorded %v, want the unrecorded token: %s", lost, made)
	}
}

func TestRenewalsOfASlotArePaced(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	b.mustAdmit()
	b.mustRenew()
	_, err := h.service.Credentials().Renew(b.onSession(), &admissionv1.RenewRequest{BootId: b.id()})
	wantCode(t, err, codes.ResourceExhausted, policy.CodeRateLimited)
}
