package signal

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/identity/identitytest"
)

// pair is two members of a cluster, and their envelopes.
type pair struct {
	ca         *identitytest.Authority
	a, b       identity.ID
	certA      tls.Certificate
	certB      tls.Certificate
	now        time.Time
	nextNumber uint64
}

func newPair(t testing.TB) *pair {
	ca := identitytest.NewAuthority(t, "test.cadre")
	p := &pair{ca: ca, a: ca.ID("db", "db-0"), b: ca.ID("db", "db-1"), now: time.Now()}
	p.certA, p.certB = ca.Issue(t, p.a), ca.Issue(t, p.b)
	return p
}

func offer(epoch uint64) Message {
	return Message{
		Type: Offer, Epoch: epoch, Search: "0123456789abcdef", Ufrag: "ufrag", Pwd: "secret-pwd", Key: bytes.Repeat([]byte{7}, KeyLen),
		Candidates: []string{"candidate:1 1 udp 2130706431 10.1.2.3 50000 typ host"},
		TCP:        []TCPCandidate{{Kind: "mapped", Addr: netip.MustParseAddrPort("198.51.100.7:4711")}}, OneWayMicros: 12_000, Last: true,
	}
}

func (p *pair) seal(t testing.TB, m Message) []byte {
	t.Helper()
	p.nextNumber++
	b, err := Seal(m, p.certA, p.a, p.b, p.certB.Leaf, p.nextNumber, p.now)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (p *pair) open(b []byte) (Opened, error) { return Open(b, p.b, p.certB, p.ca.Pool, p.now) }

func TestSealOpen(t *testing.T) {
	p := newPair(t)
	want := offer(3)
	got, err := p.open(p.seal(t, want))
	if err != nil {
		t.Fatal(err)
	}
	want.FromBoot, want.ToBoot = identity.BootID(p.certA.Leaf), identity.BootID(p.certB.Leaf)
	if !reflect.DeepEqual(got.Message, want) {
		t.Errorf("got %+v, want %+v", got.Message, want)
	}
	if got.From.ID != p.a || got.From.BootID != want.FromBoot || got.Seq != 1 {
		t.Errorf("from %+v number %d, want %s number 1", got.From, got.Seq, p.a)
	}
}

func TestOVL01ForgedFields(t *testing.T) {
	p := newPair(t)
	good := p.seal(t, offer(1))
	mallory := p.ca.Issue(t, p.ca.ID("db", "db-2"))
	elsewhere := identitytest.NewAuthority(t, "test.cadre")

	// change rewrites a field of the envelope, and signs again with key if it is
	// not nil: an attacker has keys of its own, not the sender's.
	change := func(key *tls.Certificate, f func(*envelope)) []byte {
		e, err := parseEnvelope(good)
		if err != nil {
			t.Fatal(err)
		}
		f(&e)
		if e.header, err = appendHeader(nil, e.Header); err != nil {
			t.Fatal(err)
		}
		if key != nil {
			s, err := Seal(offer(e.Epoch), *key, e.From, e.To, p.certB.Leaf, e.Seq, e.Expires.Add(-Life))
			if err != nil {
				t.Fatal(err)
			}
			signed, err := parseEnvelope(s)
			if err != nil {
				t.Fatal(err)
			}
			e.signature, e.payload = signed.signature, signed.payload
		}
		b, err := e.append()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	otherBoot := identity.BootID(mallory.Leaf)
	expired := p.ca.Issue(t, p.a, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	serverOnly := p.ca.Issue(t, p.a, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	foreign := elsewhere.Issue(t, p.a)
	for name, b := range map[string][]byte{
		"sender":            change(nil, func(e *envelope) { e.From.Slot = "db-2" }),
		"sender's boot":     change(nil, func(e *envelope) { e.FromBoot = otherBoot }),
		"cluster":           change(nil, func(e *envelope) { e.From.Cluster, e.To.Cluster = "other", "other" }),
		"recipient":         change(nil, func(e *envelope) { e.To.Slot = "db-2" }),
		"recipient's boot":  change(nil, func(e *envelope) { e.ToBoot = otherBoot }),
		"epoch":             change(nil, func(e *envelope) { e.Epoch++ }),
		"sequence":          change(nil, func(e *envelope) { e.Seq++ }),
		"expiry":            change(nil, func(e *envelope) { e.Expires = e.Expires.Add(time.Second) }),
		"expiry long ago":   change(nil, func(e *envelope) { e.Expires = e.Expires.Add(-time.Hour) }),
		"payload":           change(nil, func(e *envelope) { e.payload = append([]byte{e.payload[0] ^ 1}, e.payload[1:]...) }),
		"signature":         change(nil, func(e *envelope) { e.signature = append([]byte{}, e.signature...); e.signature[9] ^= 1 }),
		"chain of another":  change(nil, func(e *envelope) { e.chain = mallory.Certificate }),
		"key of another":    change(&mallory, func(*envelope) {}),
		"other's whole":     change(&mallory, func(e *envelope) { e.chain = mallory.Certificate }),
		"expired SVID":      change(&expired, func(e *envelope) { e.chain, e.FromBoot = expired.Certificate, identity.BootID(expired.Leaf) }),
		"server's SVID":     change(&serverOnly, func(e *envelope) { e.chain, e.FromBoot = serverOnly.Certificate, identity.BootID(serverOnly.Leaf) }),
		"other cluster CA":  change(&foreign, func(e *envelope) { e.chain, e.FromBoot = foreign.Certificate, identity.BootID(foreign.Leaf) }),
		"cut":               good[:len(good)-1],
		"longer":            append(append([]byte{}, good...), 0),
		"empty":             {},
		"too long":          make([]byte, MaxEnvelope+1),
		"version":           append([]byte{9}, good[1:]...),
		"life that is long": func() []byte { q := *p; q.now = q.now.Add(Skew + time.Minute); return q.seal(t, offer(1)) }(),
	} {
		if _, err := p.open(b); !errors.Is(err, ErrForged) || CodeOf(err) != CodeForged {
			t.Errorf("%s: error %v, want %v", name, err, ErrForged)
		}
	}
	if _, err := p.open(good); err != nil {
		t.Errorf("the untouched envelope: %v", err)
	}
}

func TestOVL02_OVL18_PayloadIsSealedToTheRecipient(t *testing.T) {
	p := newPair(t)
	b := p.seal(t, offer(1))
	for _, secret := range []string{"secret-pwd", "10.1.2.3", "198.51.100.7", "candidate", "0123456789abcdef"} {
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("the mailbox can read %q", secret)
		}
	}
	// Only the recipient can open it: another slot, another boot of the same slot, and
	// the sender cannot.
	other := p.ca.Issue(t, p.b)
	for name, open := range map[string]func() error{
		"another boot": func() error { _, err := Open(b, p.b, other, p.ca.Pool, p.now); return err },
		"the sender":   func() error { _, err := Open(b, p.a, p.certA, p.ca.Pool, p.now); return err },
		"payload alone": func() error {
			e, err := parseEnvelope(b)
			if err != nil {
				return err
			}
			_, err = openWith(other, e.header, e.payload)
			return err
		},
	} {
		if err := open(); err == nil {
			t.Errorf("%s opens it", name)
		}
	}
}

func TestOVL03OldEpochsAndRepeatsAreStale(t *testing.T) {
	p := newPair(t)
	var g Guard
	first, second := p.seal(t, offer(1)), p.seal(t, offer(2))
	late := p.seal(t, offer(1)) // sealed after the second epoch began
	admit := func(b []byte, at time.Time) error {
		o, err := Open(b, p.b, p.certB, p.ca.Pool, at)
		if err != nil {
			return err
		}
		return g.Admit(o, at)
	}
	for i, step := range []struct {
		b    []byte
		want error
	}{{first, nil}, {first, ErrStale}, {second, nil}, {second, ErrStale}, {first, ErrStale}, {late, ErrStale}} {
		if err := admit(step.b, p.now); !errors.Is(err, step.want) || (step.want == nil && err != nil) {
			t.Errorf("step %d: error %v, want %v", i, err, step.want)
		}
	}
	if err := admit(p.seal(t, Message{Type: Nudge}), p.now); err != nil {
		t.Errorf("a nudge, which has no epoch: %v", err)
	}
	if err := admit(late, p.now); !errors.Is(err, ErrStale) {
		t.Errorf("an old epoch after a nudge: error %v, want %v", err, ErrStale)
	}
	if err := admit(p.seal(t, offer(2)), p.now.Add(Life+Skew+time.Second)); CodeOf(err) != CodeStaleEpoch {
		t.Errorf("past its life: error %v, want %s", err, CodeStaleEpoch)
	}
	// A clock that is a few minutes off cuts no node off.
	for _, off := range []time.Duration{-Skew + time.Second, Skew - time.Second} {
		if err := admit(p.seal(t, offer(2)), p.now.Add(off)); err != nil {
			t.Errorf("clock off by %v: %v", off, err)
		}
	}
	// A new boot of the sender starts a new sequence.
	p.certA = p.ca.Issue(t, p.a)
	p.nextNumber = 0
	if err := admit(p.seal(t, offer(1)), p.now); err != nil {
		t.Errorf("first message of a new boot: %v", err)
	}
}

func TestOVL03EachNumberIsTakenOnce(t *testing.T) {
	var g Guard
	now := time.Now()
	taken := map[uint64]int{}
	for range 20_000 {
		seq := uint64(rand.IntN(3 * window))
		o := Opened{From: identity.Verified{BootID: "boot"}, Seq: seq}
		if g.Admit(o, now) == nil {
			taken[seq]++
		}
	}
	for seq, n := range taken {
		if n > 1 {
			t.Errorf("number %d was taken %d times", seq, n)
		}
	}
	// In order, with reordering inside the window, nothing is lost.
	g = Guard{}
	for base := uint64(0); base < 10*window; base += window / 2 {
		for _, i := range rand.Perm(window / 2) {
			o := Opened{From: identity.Verified{BootID: "boot"}, Seq: base + uint64(i)}
			if err := g.Admit(o, now); err != nil {
				t.Fatalf("number %d: %v", o.Seq, err)
			}
		}
	}
}

func TestGuardIsBounded(t *testing.T) {
	var g Guard
	now := time.Now()
	boot := func(i int) Opened {
		return Opened{From: identity.Verified{BootID: strings.Repeat("x", i%97) + string(rune(i))}, Seq: 1}
	}
	for i := range maxSenders {
		if err := g.Admit(boot(i+1), now); err != nil {
			t.Fatalf("sender %d: %v", i, err)
		}
	}
	if err := g.Admit(boot(maxSenders+1), now); !errors.Is(err, ErrStale) {
		t.Errorf("one more sender: error %v, want %v", err, ErrStale)
	}
	if err := g.Admit(boot(maxSenders+1), now.Add(memory+time.Second)); err != nil {
		t.Errorf("after the memory's time: %v", err)
	}
}

func TestMessageBounds(t *testing.T) {
	p := newPair(t)
	for name, change := range map[string]func(*Message){
		"type":           func(m *Message) { m.Type = "shout" },
		"no search":      func(m *Message) { m.Search = "" },
		"search":         func(m *Message) { m.Search = "0123456789ABCDEF" },
		"key":            func(m *Message) { m.Key = m.Key[:5] },
		"candidates":     func(m *Message) { m.Candidates = make([]string, MaxCandidates+1) },
		"candidate":      func(m *Message) { m.Candidates[0] = strings.Repeat("x", MaxCandidate+1) },
		"tcp candidates": func(m *Message) { m.TCP = make([]TCPCandidate, MaxCandidates+1) },
		"tcp port":       func(m *Message) { m.TCP[0].Addr = netip.MustParseAddrPort("1.2.3.4:0") },
		"one way":        func(m *Message) { m.OneWayMicros = -1 },
		"ufrag":          func(m *Message) { m.Ufrag = strings.Repeat("x", 1000) },
	} {
		m := offer(1)
		change(&m)
		if _, err := Seal(m, p.certA, p.a, p.b, p.certB.Leaf, 1, p.now); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: error %v, want %v", name, err, ErrMessage)
		}
	}
	full := offer(1)
	full.Candidates, full.TCP = nil, nil
	for range MaxCandidates {
		full.Candidates = append(full.Candidates, strings.Repeat("x", MaxCandidate))
		full.TCP = append(full.TCP, TCPCandidate{Kind: "mapped", Addr: netip.MustParseAddrPort("[2001:db8:1111:2222:3333:4444:5555:6666]:65535")})
	}
	b, err := Seal(full, p.certA, p.a, p.b, p.certB.Leaf, 1, p.now)
	if err != nil {
		t.Fatalf("the largest message: %v", err)
	}
	t.Logf("the largest message makes an envelope of %d bytes, of %d", len(b), MaxEnvelope)
}

func TestPathKey(t *testing.T) {
	a, b := bytes.Repeat([]byte{1}, KeyLen), bytes.Repeat([]byte{2}, KeyLen)
	key, err := PathKey(a, b, "0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := PathKey(a, b, "0123456789abcdef"); again != key {
		t.Error("the two sides get different keys")
	}
	if other, _ := PathKey(a, b, "fedcba9876543210"); other == key {
		t.Error("two searches get one key")
	}
	if swapped, _ := PathKey(b, a, "0123456789abcdef"); swapped == key {
		t.Error("the roles do not matter")
	}
	if _, err := PathKey(a, nil, "x"); err == nil {
		t.Error("a missing share makes a key")
	}
}

func FuzzEnvelope(f *testing.F) {
	p := newPair(f)
	f.Add(p.seal(f, offer(1)))
	f.Add([]byte{envelopeVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEnvelope(b)
		if err != nil {
			if !errors.Is(err, ErrForged) {
				t.Errorf("error %v, want %v", err, ErrForged)
			}
			return
		}
		header, err := appendHeader(nil, e.Header)
		if err != nil || !bytes.Equal(header, e.header) {
			t.Errorf("header does not encode back: %v", err)
		}
		if out, err := e.append(); err != nil || !bytes.Equal(out, b) {
			t.Errorf("envelope does not encode back: %v", err)
		}
		if _, err := p.open(b); err != nil && CodeOf(err) == "" {
			t.Errorf("error without code: %v", err)
		}
	})
}

func FuzzMessage(f *testing.F) {
	b, err := offer(1).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMessage(b)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatalf("an accepted message cannot be encoded: %v", err)
		}
		if got, err := decodeMessage(again); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, error %v, want %+v", got, err, m)
		}
	})
}
