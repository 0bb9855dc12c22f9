package rendezvous

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/identity/identitytest"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/internal/signal"
)

func TestTwoNodesTwoServers(t *testing.T) {
	w := newWorld(t)
	s1, s2 := w.server(), w.server()
	a, b := w.node("db", "db-0", s1, s2), w.node("db", "db-1", s1, s2)
	a.connected(t, 2)
	b.connected(t, 2)

	a.sends(t, b, nudge(1))
	got := b.next(t)
	if got.From.ID != a.id || got.From.BootID != a.boot() || got.Message.FromBoot != a.boot() || got.Message.Epoch != 1 {
		t.Errorf("got %+v, want a message of %s", got, a.id)
	}
	if err := b.Send(t.Context(), a.id, got.From.BootID, nudge(2)); err != nil {
		t.Fatal(err)
	}
	if back := a.next(t); back.From.ID != b.id || back.Message.Epoch != 2 {
		t.Errorf("got %+v, want a message of %s", back, b.id)
	}
	// Both servers deliver; each message is given once.
	eventually(t, "the second server's copy", func() bool {
		var received, duplicates uint64
		for _, st := range b.Status() {
			received, duplicates = received+st.Received, duplicates+st.Duplicates
		}
		return received == 1 && duplicates == 1
	})
	select {
	case m := <-b.Messages():
		t.Errorf("a second copy was given: %+v", m)
	default:
	}
	if a.RTT() <= 0 {
		t.Error("no round trip was measured")
	}
	// Nothing is left at the servers.
	eventually(t, "empty mailboxes", func() bool {
		return s1.mailboxes.Counts().Waiting+s2.mailboxes.Counts().Waiting == 0
	})
}

func TestServersOffersICE(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	a := w.node("db", "db-0", s)
	a.connected(t, 1)
	var urls []string
	for _, ice := range a.ICEServers() {
		urls = append(urls, ice.URL)
		if strings.HasPrefix(ice.URL, "turn") && (ice.Username == "" || ice.Password == "" || time.Until(ice.Expires) > 10*time.Minute) {
			t.Errorf("%s: credentials %q until %v", ice.URL, ice.Username, ice.Expires)
		}
	}
	at := s.STUN()[0]
	want := []string{"stun:" + at, "turn:" + at + "?transport=udp", "turn:" + at + "?transport=tcp", "turns:" + s.Addr().String() + "?transport=tcp"}
	if strings.Join(urls, " ") != strings.Join(want, " ") {
		t.Errorf("got %v, want %v", urls, want)
	}
	if got := a.Reflectors(); len(got) != 1 || got[0] != at {
		t.Errorf("reflectors %v, want %s", got, at)
	}
}

func TestServerRestart(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	keep := func(c *Config) { c.StateDir = dir }
	s := w.server(keep)
	a, b := w.node("db", "db-0", s), w.node("db", "db-1", s)
	a.sends(t, b, nudge(1))
	b.next(t)
	s.stop()
	a.connected(t, 0)
	if err := a.Send(t.Context(), b.id, "", nudge(2)); !errors.Is(err, mailbox.ErrNoServer) {
		t.Errorf("send without a server: error %v, want %v", err, mailbox.ErrNoServer)
	}
	again := w.server(keep, func(c *Config) { c.Listen = s.Addr().String() })
	if !bytes.Equal(again.CA(), s.CA()) {
		t.Error("the self-signed certificate was not kept")
	}
	a.connected(t, 1)
	b.connected(t, 1)
	a.sends(t, b, nudge(3))
	if got := b.next(t); got.Message.Epoch != 3 {
		t.Errorf("got epoch %d, want 3", got.Message.Epoch)
	}
}

func TestOneServerOfTwoGone(t *testing.T) {
	w := newWorld(t)
	s1, s2 := w.server(), w.server()
	a, b := w.node("db", "db-0", s1, s2), w.node("db", "db-1", s1, s2)
	a.connected(t, 2)
	b.connected(t, 2)
	s1.stop()
	for epoch := uint64(1); epoch <= 5; epoch++ {
		a.sends(t, b, nudge(epoch))
		if got := b.next(t); got.Message.Epoch != epoch {
			t.Errorf("got epoch %d, want %d", got.Message.Epoch, epoch)
		}
	}
}

func TestRenewedCertificateReconnects(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	key := identitytest.Key(t)
	id := w.ca.ID("db", "db-0")
	a := w.nodeWith(id, w.ca.IssueFor(t, id, key), s)
	b := w.node("db", "db-1", s)
	a.sends(t, b, nudge(1))
	b.next(t)
	since := a.Status()[0].Since
	a.mu.Lock()
	a.now.Certificate = w.ca.IssueFor(t, id, key)
	a.mu.Unlock()
	eventually(t, "a new connection", func() bool {
		st := a.Status()[0]
		return st.Connected && st.Since.After(since)
	})
	a.sends(t, b, nudge(2))
	b.next(t)
	b.sends(t, a, nudge(3))
	a.next(t)
}

func TestOVL01ServerTakesOwnEnvelopesOnly(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	b := w.node("db", "db-1", s)
	b.connected(t, 1)
	a, mallory := w.ca.ID("db", "db-0"), w.ca.ID("db", "db-9")
	certA, certM := w.ca.Issue(t, a), w.ca.Issue(t, mallory)
	good, err := signal.Seal(nudge(1), certA, a, b.id, b.cert.Leaf, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	other := identitytest.NewAuthority(t, "other.cadre")
	w.serve(other)
	eventually(t, "the second cluster", func() bool { return len(s.roots.Clusters()) == 2 })
	foreign := other.Issue(t, other.ID("db", "db-0"))

	to := boxPath(b.id, "-")
	s.refused(t, &certM, "POST", to, good, http.StatusForbidden, mailbox.CodeForged)
	s.refused(t, &foreign, "POST", to, good, http.StatusForbidden, mailbox.CodeCluster)
	s.refused(t, &foreign, "POST", boxPath(other.ID("db", "db-1"), "-"), good, http.StatusForbidden, mailbox.CodeForged)
	s.refused(t, &certA, "POST", boxPath(mallory, "-"), good, http.StatusForbidden, mailbox.CodeForged)
	s.refused(t, &certA, "POST", to, good[:50], http.StatusForbidden, mailbox.CodeForged)
	s.refused(t, &certA, "POST", to, make([]byte, signal.MaxEnvelope+1), http.StatusRequestEntityTooLarge, mailbox.CodeTooLarge)
	unknown, err := signal.Seal(nudge(1), certA, a, mallory, certM.Leaf, 2, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.refused(t, &certA, "POST", boxPath(mallory, "-"), unknown, http.StatusNotFound, mailbox.CodeUnknown)
	if status, answer := s.do(t, &certA, "POST", boxPath(b.id, b.boot()), good); status != http.StatusAccepted {
		t.Fatalf("own envelope: status %d, %s", status, answer)
	}
	if got := b.next(t); got.From.ID != a {
		t.Errorf("got a message of %s, want %s", got.From.ID, a)
	}
}

func TestOVL02OnlyTheOwnerPolls(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	a, b := w.ca.ID("db", "db-0"), w.ca.ID("db", "db-1")
	certA, certB, otherBoot := w.ca.Issue(t, a), w.ca.Issue(t, b), w.ca.Issue(t, b)
	otherCA := identitytest.NewAuthority(t, "test.cadre")
	impostor := otherCA.Issue(t, b)
	bootB := identity.BootID(certB.Leaf)

	poll := func(ack string) mailbox.Poll {
		t.Helper()
		status, answer := s.do(t, &certB, "GET", boxPath(b, "-")+"?wait=0s&ack="+ack, nil)
		var got mailbox.Poll
		if err := json.Unmarshal(answer, &got); err != nil || status != http.StatusOK {
			t.Fatalf("poll: status %d, %s", status, answer)
		}
		return got
	}
	poll("") // opens the mailbox
	envelope, err := signal.Seal(signal.Message{Type: signal.Offer, Search: "0123456789abcdef", Pwd: "secret-pwd"}, certA, a, b, certB.Leaf, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if status, answer := s.do(t, &certA, "POST", boxPath(b, bootB), envelope); status != http.StatusAccepted {
		t.Fatalf("send: status %d, %s", status, answer)
	}
	for _, path := range []string{boxPath(b, "-"), boxPath(b, bootB), mailbox.PathMailbox, mailbox.PathCertificates + "/test.cadre/db/db-1"} {
		s.refused(t, nil, "GET", path, nil, http.StatusUnauthorized, mailbox.CodeUnauthenticated)
		s.refused(t, &impostor, "GET", path, nil, http.StatusForbidden, mailbox.CodeUntrusted)
	}
	for _, path := range []string{mailbox.PathCredentials, mailbox.PathRevoked} {
		s.refused(t, nil, "POST", path, nil, http.StatusUnauthorized, mailbox.CodeUnauthenticated)
	}
	s.refused(t, &certA, "GET", boxPath(b, "-"), nil, http.StatusUnauthorized, mailbox.CodeUnauthenticated)
	s.refused(t, &certA, "GET", boxPath(b, bootB), nil, http.StatusUnauthorized, mailbox.CodeUnauthenticated)
	s.refused(t, &otherBoot, "GET", boxPath(b, bootB), nil, http.StatusUnauthorized, mailbox.CodeUnauthenticated)

	// Reading removes nothing: after any read, the owner still gets it.
	first, second := poll(""), poll("")
	if len(first.Messages) != 1 || len(second.Messages) != 1 {
		t.Fatalf("polls gave %d and %d messages, want 1 and 1", len(first.Messages), len(second.Messages))
	}
	if bytes.Contains(first.Messages[0].Envelope, []byte("secret-pwd")) {
		t.Error("the server can read the payload")
	}
	if got := poll(strconv.FormatUint(first.Messages[0].ID, 10)); len(got.Messages) != 0 {
		t.Errorf("%d messages after the acknowledgement, want none", len(got.Messages))
	}
}

func TestLongPollWakes(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	b := w.ca.ID("db", "db-1")
	certB := w.ca.Issue(t, b)
	a := w.node("db", "db-0", s)
	a.connected(t, 1)
	got := make(chan []byte, 1)
	go func() {
		_, answer := s.do(t, &certB, "GET", boxPath(b, "-")+"?wait=20s", nil)
		got <- answer
	}()
	eventually(t, "message to a polling member", func() bool { return a.Send(t.Context(), b, "", nudge(1)) == nil })
	var answer mailbox.Poll
	if err := json.Unmarshal(<-got, &answer); err != nil || len(answer.Messages) != 1 {
		t.Errorf("poll gave %+v, error %v, want 1 message", answer, err)
	}
}

func TestClustersAreApart(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	other := identitytest.NewAuthority(t, "other.cadre")
	foreign := other.Issue(t, other.ID("db", "db-0"))
	s.refused(t, &foreign, "POST", mailbox.PathCredentials, nil, http.StatusForbidden, mailbox.CodeUntrusted)
	w.serve(other)
	eventually(t, "the second cluster", func() bool {
		status, _ := s.do(t, &foreign, "POST", mailbox.PathCredentials, nil)
		return status == http.StatusOK
	})
	s.refused(t, &foreign, "GET", mailbox.PathCertificates+"/test.cadre/db/db-0", nil, http.StatusForbidden, mailbox.CodeCluster)

	// A cluster that is not served any more loses its connections.
	a := w.node("db", "db-0", s)
	a.connected(t, 1)
	if err := os.Remove(filepath.Join(w.roots, "test.cadre.pem")); err != nil {
		t.Fatal(err)
	}
	a.connected(t, 0)
	eventually(t, "the reason", func() bool { return strings.Contains(a.Status()[0].Error, string(mailbox.CodeUntrusted)) })
}
