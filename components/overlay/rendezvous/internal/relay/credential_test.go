package relay

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pion/stun/v2"

	"cadre.dev/overlay/rendezvous/internal/credential"
	"cadre.dev/overlay/rendezvous/internal/member"
)

func TestOVL12Credentials(t *testing.T) {
	b := newBench(t)
	a := who("c", "db-0", "a")
	good := b.issue(a)
	other := b.issue(who("c", "db-1", "b"))
	elsewhere := newBench(t)
	forged := func(username string) credential.Credential {
		return credential.Credential{Username: username, Password: good.Password}
	}
	ended := who("c", "db-3", "e")
	endedCredential := b.issue(ended)
	b.end(ended)
	for name, c := range map[string]credential.Credential{
		"none":             {},
		"other's password": {Username: good.Username, Password: other.Password},
		"other's name":     forged(other.Username),
		"longer life":      forged(strings.Replace(good.Username, fmt.Sprint(good.Expires.Unix()), fmt.Sprint(good.Expires.Unix()+60), 1)),
		"other boot":       forged(strings.Replace(good.Username, a.Boot, strings.Repeat("f", 64), 1)),
		"other secret":     forged(good.Username + "0"),
		"other server's":   elsewhere.issue(a),
		"ended boot":       endedCredential,
		"nonsense":         forged("nobody"),
	} {
		if code, reason := newRaw(t, b, c).do(stun.MethodAllocate, requestUDP()); code != 401 || reason != reasonExpired {
			t.Errorf("%s: answer %d %s, want 401 %s", name, code, reason, reasonExpired)
		}
	}
	if code, reason := newRaw(t, b, good).do(stun.MethodAllocate, requestUDP()); code != 0 {
		t.Errorf("the good one: answer %d %s", code, reason)
	}
	b.clock.move(10*time.Minute + time.Second)
	if code, reason := newRaw(t, b, good).do(stun.MethodAllocate, requestUDP()); code != 401 || reason != reasonExpired {
		t.Errorf("expired: answer %d %s, want 401 %s", code, reason, reasonExpired)
	}
}

func TestOVL12AllocationEndsWithItsCredential(t *testing.T) {
	b := newBench(t)
	a := who("c", "db-0", "a")
	r := newRaw(t, b, b.issue(a))
	if code, _ := r.do(stun.MethodAllocate, requestUDP()); code != 0 {
		t.Fatalf("allocate: %d", code)
	}
	// The member still shows itself: it gets new credentials, and the allocation
	// goes on with the old name, through a rotation of the secret.
	for range 5 {
		b.clock.move(6 * time.Minute)
		b.mint.Rotate(b.clock.Now())
		b.issue(a)
		b.Enforce(b.clock.Now())
		if code, reason := r.do(stun.MethodRefresh); code != 0 {
			t.Fatalf("refresh: %d %s", code, reason)
		}
	}
	// Then it does not any more.
	b.clock.move(10*time.Minute + time.Second)
	if code, reason := r.do(stun.MethodRefresh); code != 401 || reason != reasonExpired {
		t.Errorf("refresh after the end: answer %d %s, want 401 %s", code, reason, reasonExpired)
	}
	b.Enforce(b.clock.Now())
	if got := b.Allocations(); got != 0 {
		t.Errorf("%d allocations, want none", got)
	}
}

func TestOVL12StolenCredentialIsNotExtended(t *testing.T) {
	b := newBench(t)
	a := who("c", "db-0", "a")
	stolen := b.issue(a)
	r := newRaw(t, b, stolen)
	if code, _ := r.do(stun.MethodAllocate, requestUDP()); code != 0 {
		t.Fatalf("allocate: %d", code)
	}
	// The owner is elsewhere, and stays connected there.
	b.clock.move(9 * time.Minute)
	b.mint.Issue(a, netip.MustParseAddr("198.51.100.9"), b.clock.Now().Add(time.Hour), b.clock.Now())
	b.clock.move(2 * time.Minute)
	b.Enforce(b.clock.Now())
	if got := b.Allocations(); got != 0 {
		t.Errorf("%d allocations, want none", got)
	}
}

func TestOVL12RevocationEndsAllocations(t *testing.T) {
	b := newBench(t)
	a, other := who("c", "db-0", "a"), who("c", "db-1", "b")
	x, y := b.allocated("udp", b.issue(a)), b.allocated("tcp", b.issue(other))
	_, _ = y.relayed.WriteTo([]byte("open"), x.relayed.LocalAddr())
	exchange(t, x, y, "before")
	b.end(a)
	b.End(func(m member.Member) bool { return m == a })
	if got := b.Allocations(); got != 1 {
		t.Errorf("%d allocations, want 1", got)
	}
	_, _ = x.relayed.WriteTo([]byte("after"), y.relayed.LocalAddr())
	if _, err := x.SendBindingRequest(); err != nil {
		t.Errorf("STUN for everybody: %v", err)
	}
	// Datagrams that were sent before may still arrive. Byte counts are no sign: until
	// the engine notices the end it tries to send, on a socket that is closed.
	buf := make([]byte, 100)
	for {
		_ = y.relayed.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		n, _, err := y.relayed.ReadFrom(buf)
		if err != nil {
			break
		}
		if string(buf[:n]) == "after" {
			t.Error("an ended boot still relays")
		}
	}
	y.close()
}
