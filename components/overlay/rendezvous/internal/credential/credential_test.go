package credential

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/rendezvous/internal/member"
)

var (
	start = time.Unix(1_700_000_000, 0)
	who   = member.Member{ID: identity.ID{Cluster: "c", Group: "db", Slot: "db-0"}, Boot: strings.Repeat("a", 64)}
	here  = netip.MustParseAddr("198.51.100.1")
)

func nobody(member.Member) bool { return false }

func TestOVL12SecretRotatesWhileCredentialsLive(t *testing.T) {
	m := New(10*time.Minute, nobody, start)
	c := m.Issue(who, here, start.Add(time.Hour), start.Add(9*time.Minute))
	m.Rotate(start.Add(10 * time.Minute)) // a new secret
	got, password, expires, err := m.Check(c.Username, start.Add(15*time.Minute))
	if err != nil || got != who || password != c.Password || !expires.Equal(c.Expires) {
		t.Errorf("after a rotation: %v %v, error %v", got, expires, err)
	}
	again := m.Issue(who, here, start.Add(time.Hour), start.Add(10*time.Minute))
	if again.Password == c.Password {
		t.Error("the secret did not change")
	}
	m.Rotate(start.Add(20 * time.Minute))
	if _, _, _, err := m.Check(c.Username, start.Add(15*time.Minute)); !errors.Is(err, ErrExpired) {
		t.Errorf("a secret of two rotations ago: error %v, want %v", err, ErrExpired)
	}
	if len(m.secrets) != 2 {
		t.Errorf("%d secrets are kept, want 2", len(m.secrets))
	}
}

func TestOVL12CredentialsAreShort(t *testing.T) {
	m := New(24*time.Hour, nobody, start)
	if c := m.Issue(who, here, start.Add(time.Hour), start); c.Expires.Sub(start) > MaxLife {
		t.Errorf("good for %v, at most %v", c.Expires.Sub(start), MaxLife)
	}
	if c := m.Issue(who, here, start.Add(time.Minute), start); c.Expires.After(start.Add(time.Minute)) {
		t.Error("a credential outlives the certificate")
	}
}

func TestUntil(t *testing.T) {
	ended := false
	m := New(10*time.Minute, func(member.Member) bool { return ended }, start)
	first := m.Issue(who, here, start.Add(time.Hour), start)
	if got := m.Until(who, here, first.Expires); !got.Equal(first.Expires) {
		t.Errorf("until %v, want %v", got, first.Expires)
	}
	second := m.Issue(who, here, start.Add(time.Hour), start.Add(5*time.Minute))
	if got := m.Until(who, here, first.Expires); !got.Equal(second.Expires) {
		t.Errorf("with a newer one until %v, want %v", got, second.Expires)
	}
	if got := m.Until(who, netip.MustParseAddr("203.0.113.9"), first.Expires); !got.Equal(first.Expires) {
		t.Errorf("from elsewhere until %v, want %v", got, first.Expires)
	}
	ended = true
	if got := m.Until(who, here, first.Expires); !got.IsZero() {
		t.Errorf("an ended boot until %v", got)
	}
}

func FuzzUsername(f *testing.F) {
	m := New(10*time.Minute, nobody, start)
	f.Add(m.Issue(who, here, start.Add(time.Hour), start).Username)
	f.Add("1:a/b/c:d:1")
	f.Fuzz(func(t *testing.T, name string) {
		if _, _, _, err := m.Check(name, start); err != nil && !errors.Is(err, ErrExpired) {
			t.Errorf("error %v, want %v", err, ErrExpired)
		}
	})
}
