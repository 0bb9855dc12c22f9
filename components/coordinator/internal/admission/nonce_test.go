package admission

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/raced"
	"cadre.dev/store"
)

// A replayed exchange is useless after success, after its time, at another coordinator, and for
// another Boot.
func TestATT09_AReplayedExchangeIsWorthNothing(t *testing.T) {
	s := newSmall(t, 2, 1, "demo")
	b := s.newcomer(0, 0)
	c, err := b.challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req := b.request(c, nil)
	if _, err := b.Admit(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	before := s.admission(0)
	t.Run("at once", func(t *testing.T) {
		if _, err := b.Admit(t.Context(), req); code(err) != codeNonce {
			t.Error(err)
		}
	})
	t.Run("at another coordinator, as if on the same connection", func(t *testing.T) {
		other := &contact{Service: s.services[1], bootKey: b.bootKey, channel: b.channel}
		if _, err := other.Admit(t.Context(), req); code(err) != codeNonce {
			t.Error(err)
		}
	})
	t.Run("on another connection", func(t *testing.T) {
		if _, err := b.again(s.services[0]).Admit(t.Context(), req); code(err) != codeNonce {
			t.Error(err)
		}
	})
	t.Run("by another boot", func(t *testing.T) {
		thief := s.newcomer(0, 0)
		thief.channel = b.channel
		if _, err := thief.Admit(t.Context(), req); code(err) != codeNonce {
			t.Error(err)
		}
	})
	t.Run("an unspent one after its time", func(t *testing.T) {
		late := b.again(s.services[0])
		c, err := late.challenge(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.now.Store(int64(nonceTTL + 2*time.Second))
		defer s.now.Store(0)
		if _, err := late.Admit(t.Context(), late.request(c, nil)); code(err) != codeNonce {
			t.Error(err)
		}
	})
	if after := s.admission(0); after.AttestedAt != before.AttestedAt || after.Generation != before.Generation {
		t.Errorf("a replay changed the admission: %+v", after)
	}
}

// quickIssuer keeps Consul's ACL system out of the measurement.
type quickIssuer struct{ n atomic.Int64 }

func (i *quickIssuer) Slot(context.Context, tokens.Holder) (tokens.Token, error) {
	return tokens.Token{Accessor: fmt.Sprint("w", i.n.Add(1)), ExpiresAt: time.Now().Add(tokens.TTL)}, nil
}
func (*quickIssuer) Rules(tokens.Holder) string              { return "rules" }
func (*quickIssuer) Revoke(context.Context, ...string) error { return nil }

// A hundred concurrent submissions over three coordinators on one real Consul, round after round:
// exactly one succeeds in each round.
func TestATT10_ANonceIsSpentOnceAcrossCoordinators(t *testing.T) {
	h := newHarness(t)
	h.cfg.Issuer = &quickIssuer{}
	services := []*Service{h.coordinator("coordinator-0"), h.coordinator("coordinator-1"), h.coordinator("coordinator-2")}
	b := h.boot(composeText, h.seed)
	rounds, limit := 0, time.Now().Add(8*time.Second)
	for ; time.Now().Before(limit) || rounds == 0; rounds++ {
		b.connect()
		c, err := b.challenge()
		if err != nil {
			t.Fatal(err)
		}
		req := b.request(c, nil)
		var won, spent, shed atomic.Int32
		var wg sync.WaitGroup
		for i := range 100 {
			same := &contact{Service: services[i%3], bootKey: b.contact.bootKey, channel: b.contact.channel}
			wg.Go(func() {
				_, err := same.Admit(t.Context(), req)
				switch code(err) {
				case "":
					won.Add(1)
				case codeNonce:
					spent.Add(1)
				case codeOverloaded, codeUnreadable:
					shed.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d succeeded, %d got that it is spent, %d a retry delay", rounds, won.Load(), spent.Load(), shed.Load())
		}
	}
	t.Logf("%d rounds of 100 submissions over 3 coordinators: one success each", rounds)
}

// Ten thousand hoarded nonces are used for another Slot, on another connection, or too late.
func TestATT11_HoardedNoncesAreForTheirExchangeOnly(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	b, other := s.newcomer(0, 0), s.newcomer(0, 1)
	key, now := s.services[0].cfg.Root.NonceKey(), s.clock()
	hoard := make([][]byte, 0, raced.Tenth(10_000))
	for range cap(hoard) {
		n, _, err := issueNonce(key, b.exchange(workloadApp, b.instance), now)
		if err != nil {
			t.Fatal(err)
		}
		hoard = append(hoard, n)
	}
	for i, n := range hoard {
		for what, err := range map[string]error{
			"for another slot":         check(key, n, b.exchange(workloadApp, other.instance), now),
			"on another connection":    check(key, n, b.again(s.services[0]).exchange(workloadApp, b.instance), now),
			"by another boot":          check(key, n, exchange{appID: workloadApp, instanceID: b.instance, bootKey: other.bootKey, channel: b.channel}, now),
			"for another app":          check(key, n, b.exchange(coordinatorApp, b.instance), now),
			"after its time":           check(key, n, b.exchange(workloadApp, b.instance), now.Add(nonceTTL+time.Second)),
			"under another cluster":    check([]byte("another key"), n, b.exchange(workloadApp, b.instance), now),
			"with another expiry":      check(key, flip(n, nonceRandom), b.exchange(workloadApp, b.instance), now),
			"with other random bytes":  check(key, flip(n, 0), b.exchange(workloadApp, b.instance), now),
			"with a shorter signature": check(key, n[:nonceSize-1], b.exchange(workloadApp, b.instance), now),
		} {
			if !errors.Is(err, errNonce) {
				t.Fatalf("nonce %d %s: %v", i, what, err)
			}
		}
		if err := check(key, n, b.exchange(workloadApp, b.instance), now); err != nil {
			t.Fatalf("nonce %d for its own exchange: %v", i, err)
		}
	}
	// The complete exchange, for one of them.
	c, err := b.challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Nonce = hoard[0]
	if _, err := other.Admit(t.Context(), other.request(c, nil)); code(err) != codeNonce {
		t.Errorf("a hoarded nonce at another slot: %v", err)
	}
}

func check(key, nonce []byte, e exchange, now time.Time) error {
	_, err := checkNonce(key, nonce, e, now)
	return err
}

func flip(b []byte, i int) []byte {
	out := append([]byte(nil), b...)
	out[i] ^= 1
	return out
}

// A hundred thousand challenges store nothing in memory or in the records. The race detector runs a
// tenth of them.
func TestINP05_AskingForNoncesStoresNothing(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	_, before, err := s.store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(n int) {
		b := s.newcomer(0, 0)
		for i := range n {
			if i%maxExchanges == 0 {
				b = b.again(s.services[0])
			}
			if _, err := b.challenge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	ask(1000)
	start, began := heap(), time.Now()
	challenges := raced.Tenth(100_000)
	ask(challenges)
	took, grown := time.Since(began), int64(heap())-int64(start)
	t.Logf("%d challenges: %v each, heap grown by %d KiB", challenges, took/time.Duration(challenges), grown>>10)
	if grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if _, after, err := s.store.List(t.Context(), ""); err != nil || after != before {
		t.Errorf("the records changed: index %d, then %d, %v", before, after, err)
	}
	// One connection reaches its limit.
	b := s.newcomer(0, 0)
	for i := 0; ; i++ {
		_, err := b.challenge(t.Context())
		if code(err) == codeRate && i == maxExchanges {
			break
		}
		if err != nil || i > maxExchanges {
			t.Fatalf("challenge %d on one connection: %v", i, err)
		}
	}
	if entries, _, err := s.store.List(t.Context(), store.NoncesPrefix); err != nil || len(entries) != 0 {
		t.Errorf("%d nonces stored, %v", len(entries), err)
	}
}
