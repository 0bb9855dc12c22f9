package admission

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// before runs f once, right before the next transaction that writes key: after all reads and
// decisions for it.
func (s *small) before(key string, f func()) {
	done := false
	s.store.OnCommit(func(ops []store.Op) storetest.Fault {
		if !done && slices.ContainsFunc(ops, func(op store.Op) bool { return op.Key == key && op.Kind == store.OpPutCAS }) {
			done = true
			f()
		}
		return storetest.None
	})
}

func (s *small) put(key string, value []byte) {
	s.t.Helper()
	if err := s.store.Commit(s.t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: value}); err != nil {
		s.t.Error(err)
	}
}

// There is no leader, the coordinator's View lacks the revocation, and the evidence was appraised
// before. If a transaction cannot check the spelling of the revocation, the Boot still gets
// nothing.
func TestThreat_ATT31_ARevocationRightBeforeTheCommitPreventsTheAdmission(t *testing.T) {
	s := newSmall(t, 2, 1, "demo")
	s.store.ExpireSession()
	upper := strings.ToUpper(strings.Repeat("c", 64))
	for _, c := range []struct {
		revoked string
		taken   bool // the Slot is taken: only the credentials are refused
	}{
		{"instance-" + instanceOf(0), false},
		{"revision-" + revision, false},
		{"revision-" + strings.Repeat("c", 64), false},
		{"key_provider-00ff", false},
		{"key_provider-00FF", true},
		{"revision-" + upper, true},
	} {
		key := store.RevocationKey(c.revoked)
		s.before(store.AdmissionKey("pg-0"), func() { s.put(key, []byte("whatever is written")) })
		issued := s.issued.Load()
		b := s.newcomer(1, 0)
		err := b.admit(t.Context())
		a := s.admission(0)
		if err == nil || s.issued.Load() != issued || len(a.TokenAccessors) != 0 || (a.BootID == b.bootID) != c.taken {
			t.Errorf("%s: error %v, %d tokens issued, admission %+v", c.revoked, err, s.issued.Load()-issued, a)
		}
		s.store.OnCommit(nil)
		if err := s.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: key}); err != nil {
			t.Fatal(err)
		}
		s.endLease(0)
	}
	s.await(func(v *view.View) bool { return len(v.Gate.Revocations) == 0 })
	if err := s.newcomer(0, 0).admit(t.Context()); err != nil {
		t.Errorf("nothing is revoked: %v", err)
	}
}

// The leader accepted the floor and crashed before it wrote the policies of the Slots.
func TestThreat_ATT25_ATT31_AFloorIsInForceBeforeASlotsPolicyHasIt(t *testing.T) {
	s := newSmall(t, 2, 1, "demo")
	raise := func() {
		put, err := store.Put(store.GroupPolicyKey("pg"), policy.GroupPolicy{Group: "pg", Epoch: 1, Floor: policy.AcceptedFloor{Number: 3}}, 0)
		if err != nil {
			t.Error(err)
		}
		s.put(put.Key, put.Value)
		s.store.ExpireSession()
	}
	s.before(store.AdmissionKey("pg-0"), raise)
	if err := s.newcomer(0, 0).admit(t.Context()); err == nil || s.admission(0).BootID != "" {
		t.Errorf("raised right before the commit: %v", err)
	}
	s.store.OnCommit(nil)
	s.await(func(v *view.View) bool { return v.Gate.Groups["pg"].Value.Floor.Number == 3 })
	if err := s.newcomer(1, 0).admit(t.Context()); code(err) != policy.CodeRevisionBelowFloor {
		t.Errorf("raised before: %v", err)
	}
}

// The renewal was decided by a View without the revocation.
func TestThreat_ATT31_TOK03_ARevocationRightBeforeARenewalPreventsIt(t *testing.T) {
	h := newHarness(t)
	b := h.boot(composeText, h.seed)
	b.mustAdmit()
	if err := h.leader.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, revoked := range []string{
		"instance-" + b.info.InstanceID, "revision-" + revision, "revision-" + b.info.ComposeHash, "key_provider-" + h.cloud.KeyProviderID(),
	} {
		before := h.admission()
		issuer := &recording{Issuer: h.cfg.Issuer}
		h.service.cfg.Issuer = issuer
		key := store.RevocationKey(revoked)
		h.onFirstJudgement(func() error {
			return h.store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte("now")})
		})
		_, err := b.renew()
		if err == nil {
			t.Errorf("%s: renewed", revoked)
		} else {
			wantRefused(t, err)
		}
		if after := h.admission(); len(after.TokenAccessors) != len(before.TokenAccessors) || len(issuer.made) == 0 {
			t.Errorf("%s: recorded %+v after %d issues", revoked, after, len(issuer.made))
		}
		for _, token := range issuer.made {
			if h.works(token.Secret) {
				t.Errorf("%s: a token that was made in vain works", revoked)
			}
		}
		if err := h.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	h.service.cfg.Issuer, h.service.cfg.MayRenew = h.cfg.Issuer, policy.MayRenew
	b.mustRenew()
}

// wantRefused checks for a final refusal, without a retry.
func wantRefused(t *testing.T, err error) {
	t.Helper()
	if got := status.Code(err); got != codes.PermissionDenied {
		t.Errorf("%v, want %v", err, codes.PermissionDenied)
	}
}
