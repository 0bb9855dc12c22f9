package rendezvous

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"cadre.dev/overlay/internal/identity/identitytest"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/rendezvous/internal/member"
)

func TestRevokedBootsLoseEverything(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	a := w.node("db", "db-0", s)
	boss := w.node("coordinator", "coordinator-0", s)
	other := identitytest.NewAuthority(t, "other.cadre")
	w.serve(other)
	eventually(t, "the second cluster", func() bool { return len(s.roots.Clusters()) == 2 })
	a.connected(t, 1)
	body := []byte(jsonText(t, mailbox.Revocation{Boots: []string{a.boot()}}))
	s.refused(t, &a.cert, "POST", mailbox.PathRevoked, body, http.StatusForbidden, mailbox.CodeScope)
	s.refused(t, &boss.cert, "POST", mailbox.PathRevoked, []byte(`{"boots":["x"]}`), http.StatusBadRequest, mailbox.CodeRequest)
	// Another cluster's coordinator cannot end a Boot here.
	foreign := other.Issue(t, other.ID("coordinator", "coordinator-0"))
	if status, _ := s.do(t, &foreign, "POST", mailbox.PathRevoked, body); status != http.StatusOK {
		t.Errorf("status %d, want 200", status)
	}
	if a.connections() != 1 {
		t.Error("another cluster's coordinator ended a boot")
	}

	relayed := allocate(t, s, a.ICEServers())
	if err := boss.Revoke([]string{a.boot()}); err != nil {
		t.Fatal(err)
	}
	a.connected(t, 0)
	eventually(t, "the allocation's end", func() bool { return s.relay.Allocations() == 0 })
	eventually(t, "the reason", func() bool { return strings.Contains(a.Status()[0].Error, string(mailbox.CodeRevoked)) })
	if err := relayed.again(); err == nil {
		t.Error("OVL-12: the credential of an ended boot still allocates")
	}
	s.refused(t, &a.cert, "POST", mailbox.PathCredentials, nil, http.StatusForbidden, mailbox.CodeRevoked)

	// A server that starts later gets the list when the coordinator connects.
	again := w.server()
	late := w.nodeWith(boss.id, boss.cert, again)
	if err := late.Revoke([]string{a.boot()}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the revocation at the new server", func() bool {
		status, _ := again.do(t, &a.cert, "POST", mailbox.PathCredentials, nil)
		return status == http.StatusForbidden
	})
}

func TestRevocationsHaveARateOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	s := w.server(func(c *Config) { c.Limits.Requests, c.Limits.RequestsBurst = 1, 4 })
	boss := w.node("coordinator", "coordinator-0", s)
	a := w.node("db", "db-0", s)
	a.connected(t, 1)
	boss.connected(t, 1)
	eventually(t, "a refusal", func() bool {
		status, _ := s.do(t, &boss.cert, "POST", mailbox.PathCredentials, nil)
		return status == http.StatusTooManyRequests
	})
	body := []byte(jsonText(t, mailbox.Revocation{Boots: []string{a.boot()}}))
	if status, answer := s.do(t, &boss.cert, "POST", mailbox.PathRevoked, body); status != http.StatusOK {
		t.Errorf("revocation: status %d, %s, want 200", status, answer)
	}
	// However often it is refused, the coordinator says it until it is heard.
	for range 3 {
		s.do(t, &boss.cert, "POST", mailbox.PathRevoked, body)
	}
	other := w.node("db", "db-1", s)
	eventually(t, "the second boot", func() bool { return len(s.mailboxes.Find(other.id, 1, time.Now())) == 1 })
	if err := boss.Revoke([]string{a.boot(), other.boot()}); err != nil {
		t.Fatal(err)
	}
	other.connected(t, 0)

	// A Boot that leaves the coordinator's list is permitted again.
	if err := boss.Revoke(nil); err != nil {
		t.Fatal(err)
	}
	a.connected(t, 1)
	other.connected(t, 1)
}

func TestAnEndedBootIsNotServedOnItsOldConnection(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	ws, n := w.socket(s, "db-0")
	eventually(t, "the member", func() bool { return len(s.mailboxes.Find(n.id, 1, time.Now())) == 1 })
	// As if the mailbox had been opened just after it was looked for.
	boss := member.Member{ID: w.ca.ID("coordinator", "coordinator-0"), Boot: "b"}
	s.revoked.Replace(boss, []string{n.boot()}, time.Now())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := ws.Write(ctx, websocket.MessageText, []byte(`{"type":"find","id":1,"group":"db","slot":"db-0"}`)); err != nil {
		t.Fatal(err)
	}
	var f mailbox.Frame
	for f.Type != mailbox.FrameGoodbye {
		_, b, err := ws.Read(ctx)
		if err != nil {
			t.Fatalf("no goodbye: %v", err)
		}
		if f, err = mailbox.ParseFrame(b); err != nil {
			t.Fatal(err)
		}
		if f.Type == mailbox.FrameFound {
			t.Fatal("an ended boot is answered")
		}
	}
	if f.Code != mailbox.CodeRevoked {
		t.Errorf("goodbye with %s, want %s", f.Code, mailbox.CodeRevoked)
	}
}

func TestWithTheCAOfAClusterItsRelaysEnd(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	a := w.node("db", "db-0", s)
	a.connected(t, 1)
	relayed := allocate(t, s, a.ICEServers())
	if err := os.Remove(filepath.Join(w.roots, testCluster+".pem")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the allocation's end", func() bool { return s.relay.Allocations() == 0 })
	if err := relayed.again(); err == nil {
		t.Error("the credential of a cluster that is gone still allocates")
	}
}

func TestHealthMetricsAndDrain(t *testing.T) {
	w := newWorld(t)
	s := w.server(func(c *Config) { c.Drain = 10 * time.Second })
	a := w.node("db", "db-0", s)
	a.connected(t, 1)
	if status, body := s.do(t, nil, "GET", mailbox.PathHealth, nil); status != http.StatusOK {
		t.Errorf("health: status %d, %s", status, body)
	}
	relayed := allocate(t, s, a.ICEServers())
	text := admin(t, s, "/metrics")
	for _, want := range []string{
		"cadre_rendezvous_members 1", "cadre_rendezvous_allocations 1", "cadre_rendezvous_credentials_total 1",
		"cadre_rendezvous_mailboxes 1", `cadre_rendezvous_requests_total{kind="socket"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	if strings.Contains(text, "db-0") || strings.Contains(text, testCluster) {
		t.Error("metrics name members")
	}
	// While it drains it reports that, sends members away, and relays existing
	// allocations until it ends.
	go s.stop()
	a.connected(t, 0)
	eventually(t, "draining health", func() bool { return strings.Contains(admin(t, s, mailbox.PathHealth), "draining") })
	if s.relay.Allocations() != 1 {
		t.Error("draining cut an allocation off")
	}
	if err := relayed.again(); err == nil {
		t.Error("draining takes new allocations")
	}
	relayed.close()
	s.stop()
}

func admin(t testing.TB, s *box, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.AdminAddr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

func jsonText(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
