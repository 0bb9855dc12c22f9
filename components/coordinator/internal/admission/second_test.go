package admission

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/attest"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// opinion is a second verifier.
type opinion func(ctx context.Context, ev attest.Evidence, data [64]byte) (policy.Claims, error)

func (o opinion) Verify(ctx context.Context, ev attest.Evidence, data [64]byte) (policy.Claims, error) {
	return o(ctx, ev, data)
}

func (s *small) free() (verifying, confirming int) {
	one := s.services[0]
	for _, p := range []struct {
		pool *pool
		free *int
	}{{one.verifying, &verifying}, {one.confirming, &confirming}} {
		p.pool.mu.Lock()
		*p.free = p.pool.free
		p.pool.mu.Unlock()
	}
	return verifying, confirming
}

// More attempts ask the second verifier than there are places for verifications. Junk is still
// refused meanwhile.
func TestATT27_ASlowSecondVerifierHoldsNoPlaceOfTheFirst(t *testing.T) {
	const size = 2
	s := newSmall(t, 1, size+2, "demo")
	one := s.services[0]
	one.verifying = newPool(size, s.clock)
	entered, answer := make(chan time.Duration), make(chan struct{})
	one.cfg.Second = opinion(func(ctx context.Context, ev attest.Evidence, data [64]byte) (policy.Claims, error) {
		until, _ := ctx.Deadline()
		entered <- time.Until(until)
		<-answer
		return s.Verify(ctx, ev, data)
	})
	var all sync.WaitGroup
	limit := time.After(20 * time.Second)
	for i := range size + 1 {
		all.Go(func() {
			if err := s.newcomer(0, i).admit(t.Context()); err != nil {
				t.Errorf("pg-%d: %v", i, err)
			}
		})
	}
	for i := range size + 1 {
		select {
		case left := <-entered:
			if left <= 0 || left > confirmTime {
				t.Errorf("it has %v for its answer, want at most %v", left, confirmTime)
			}
		case <-limit:
			t.Fatalf("only %d of %d reach the second verifier", i, size+1)
		}
	}
	if free, _ := s.free(); free != size {
		t.Errorf("%d of %d places are free for verifications", free, size)
	}
	junk := s.newcomer(0, size+1)
	c, err := junk.challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req := junk.request(c, nil)
	req.Evidence.Quote = append(req.Evidence.Quote, 'x')
	if _, err := junk.Admit(t.Context(), req); code(err) != codeRejected {
		t.Errorf("junk: %v", err)
	}
	close(answer)
	all.Wait()
	if free, confirming := s.free(); free != size || confirming != maxConfirms {
		t.Errorf("left behind: %d and %d places", size-free, maxConfirms-confirming)
	}
}

// The second verifier's queue is full, so the attempt gets a retryable refusal.
func TestATT27_WithoutAPlaceAtTheSecondVerifierNoBootIsAdmitted(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	one := s.services[0]
	one.confirming = newPool(1, s.clock)
	one.cfg.Second = opinion(s.Verify)
	done, refused := one.confirming.enter(t.Context(), "pg-0", "first")
	if refused != nil {
		t.Fatal(refused)
	}
	for range laneLength {
		if _, in := one.confirming.join("pg-0", "others"); in {
			t.Fatal("there was a place")
		}
	}
	b := s.newcomer(0, 0)
	err := b.admit(t.Context())
	if code(err) != codeOverloaded || status.Code(err) != codes.Unavailable {
		t.Errorf("full: %v", err)
	}
	if a := s.admission(0); a.BootID != "" {
		t.Errorf("admitted %+v", a)
	}
	if free, _ := s.free(); free != one.verifying.size {
		t.Error("it took a place of the first verifier with it")
	}
	done()
	one.confirming = newPool(1, s.clock)
	if err := b.again(one).admit(t.Context()); err != nil {
		t.Errorf("there is a place: %v", err)
	}
}

func TestATT27_BothVerifiersMustAgreeBeforeAnyoneIsAdmitted(t *testing.T) {
	for name, c := range map[string]struct {
		second           func(*policy.Claims) error
		public, recorded policy.Code
	}{
		"it agrees":          {func(*policy.Claims) error { return nil }, "", ""},
		"it differs":         {func(c *policy.Claims) error { c.ComposeHash = strings.Repeat("e", 64); return nil }, codeRejected, policy.CodeVerifierInconsistent},
		"it refuses":         {func(*policy.Claims) error { return &attest.Error{Code: "QUOTE_INVALID"} }, codeRejected, policy.CodeVerifierInconsistent},
		"it does not answer": {func(*policy.Claims) error { return context.DeadlineExceeded }, codeVerifier, codeVerifier},
	} {
		s := newSmall(t, 1, 1, "demo")
		s.services[0].cfg.Second = opinion(func(ctx context.Context, ev attest.Evidence, data [64]byte) (policy.Claims, error) {
			claims, err := s.Verify(ctx, ev, data)
			if err != nil {
				return claims, err
			}
			return claims, c.second(&claims)
		})
		err := s.newcomer(0, 0).admit(t.Context())
		if code(err) != c.public || (status.Code(err) == codes.Unavailable) != (c.public == codeVerifier) {
			t.Errorf("%s: %v, want %q", name, err, c.public)
		}
		if admitted := s.admission(0).BootID != ""; admitted != (c.public == "") {
			t.Errorf("%s: admitted %t", name, admitted)
		}
		if c.recorded == "" {
			continue
		}
		if r, _, err := store.Read[policy.Refusal](t.Context(), s.store, store.RefusalKey("pg-0")); err != nil || r.Code != c.recorded {
			t.Errorf("%s: recorded %+v, %v", name, r, err)
		}
	}
}

// A revocation during the second verifier's call counts. The second verifier is not asked about
// evidence that the policy refuses.
func TestATT31_TheSecondVerifiersAnswerDoesNotOutliveARevocation(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	asked := 0
	s.services[0].cfg.Second = opinion(func(ctx context.Context, ev attest.Evidence, data [64]byte) (policy.Claims, error) {
		asked++
		revoke := store.Op{Kind: store.OpPut, Key: store.RevocationKey("revision-" + revision), Value: []byte("now")}
		if err := s.store.Commit(ctx, revoke); err != nil {
			t.Error(err)
		}
		return s.Verify(ctx, ev, data)
	})
	if err := s.newcomer(0, 0).admit(t.Context()); err == nil || asked != 1 || s.admission(0).BootID != "" {
		t.Errorf("revoked while the second verifier thought: %v, asked %d times", err, asked)
	}
	if err := s.newcomer(0, 1).admit(t.Context()); err == nil || asked != 1 {
		t.Errorf("revoked before: %v, asked %d times", err, asked)
	}
}
