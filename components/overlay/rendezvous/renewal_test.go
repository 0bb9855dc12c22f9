package rendezvous

import (
	"testing"
	"time"

	"cadre.dev/overlay/internal/mailbox"
)

// username is that of the relay credential that a member has now; empty: none is good.
func username(offers []mailbox.ICEServer) string {
	for _, o := range offers {
		if o.Username != "" {
			return o.Username
		}
	}
	return ""
}

// Credentials are renewed before they end, without a request, and an allocation that was
// made with an ended one goes on carrying datagrams. The ended credential itself
// allocates nothing.
func TestTOK15_RelayedPathsOutliveTheirCredentials(t *testing.T) {
	w := newWorld(t)
	const life = 13 * time.Second // half of it is longer than a client wants to be left
	s := w.server(func(c *Config) { c.Limits.CredentialLife = life })
	a := w.node("db", "db-0", s)
	a.connected(t, 1)
	first := time.Now()
	relayed := allocate(t, s, a.ICEServers())
	b := w.node("db", "db-1", s)
	b.connected(t, 1)
	peer := allocate(t, s, b.ICEServers())
	carries := func() {
		t.Helper()
		_, _ = peer.WriteTo([]byte("open"), relayed.LocalAddr()) // a permission each way
		_ = peer.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := relayed.WriteTo([]byte("x"), peer.LocalAddr()); err != nil {
			t.Fatalf("after %v: %v", time.Since(first), err)
		}
		if _, _, err := peer.ReadFrom(make([]byte, 8)); err != nil {
			t.Fatalf("after %v: %v", time.Since(first), err)
		}
	}
	carries()
	seen := map[string]bool{}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for time.Since(first) < 2*life+time.Second {
		name := username(a.ICEServers())
		if name == "" {
			t.Fatalf("after %v: no credential is good for a little while", time.Since(first))
		}
		seen[name] = true
		carries()
		<-tick.C
	}
	if len(seen) < 3 {
		t.Errorf("%d credentials in %v, want one after the other", len(seen), time.Since(first))
	}
	if err := relayed.again(); err == nil {
		t.Error("an ended credential still allocates")
	}
	if n := s.relay.Allocations(); n != 2 {
		t.Errorf("%d allocations, want the two", n)
	}
}
