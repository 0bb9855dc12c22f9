package rendezvous

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/identity/identitytest"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/internal/signal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testCluster = "test.cadre"

// world is one cluster and the servers that it meets at.
type world struct {
	t     testing.TB
	ca    *identitytest.Authority
	roots string
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, ca: identitytest.NewAuthority(t, testCluster), roots: t.TempDir()}
	w.serve(w.ca)
	return w
}

// serve adds a cluster to the served clusters.
func (w *world) serve(ca *identitytest.Authority) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.roots, ca.Cluster+".pem"), ca.PEM, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func testLog(name string) *slog.Logger {
	if os.Getenv("OVERLAY_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("self", name)
}

// box is one running server.
type box struct {
	*Server
	url  string
	stop func()
}

func (w *world) server(change ...func(*Config)) *box {
	w.t.Helper()
	c := Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Roots: w.roots, STUN: []string{"127.0.0.1:0"},
		RelayIP: netip.MustParseAddr("127.0.0.1"), Revocations: true, Log: testLog("server"),
	}
	for _, f := range change {
		f(&c)
	}
	s, err := New(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	b := &box{Server: s, url: "https://" + s.Addr().String()}
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run server: %v", err)
		}
	})
	w.t.Cleanup(b.stop)
	return b
}

// node is a member with a running client.
type node struct {
	*mailbox.Client
	id   identity.ID
	cert tls.Certificate
	stop func()

	mu  sync.Mutex
	now mailbox.Identity
}

func (n *node) boot() string { return identity.BootID(n.cert.Leaf) }

func (w *world) node(group, slot string, servers ...*box) *node {
	w.t.Helper()
	id := w.ca.ID(group, slot)
	return w.nodeWith(id, w.ca.Issue(w.t, id), servers...)
}

func (w *world) nodeWith(id identity.ID, cert tls.Certificate, servers ...*box) *node {
	w.t.Helper()
	n := &node{id: id, cert: cert}
	n.now = mailbox.Identity{ID: id, Certificate: cert, Roots: w.ca.Pool}
	c := mailbox.Config{Log: testLog(id.Slot), Identity: func() (mailbox.Identity, bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.now, true
	}}
	for _, s := range servers {
		c.Servers = append(c.Servers, mailbox.Server{URL: s.url, CA: s.CA()})
	}
	var err error
	if n.Client, err = mailbox.New(c); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run client: %v", err)
		}
	})
	w.t.Cleanup(n.stop)
	return n
}

// connected waits until n has n connections.
func (n *node) connected(t testing.TB, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d connections of %s", want, n.id.Slot), func() bool { return n.connections() == want })
}

func (n *node) connections() int {
	got := 0
	for _, st := range n.Status() {
		if st.Connected {
			got++
		}
	}
	return got
}

func (n *node) next(t testing.TB) mailbox.Incoming {
	t.Helper()
	select {
	case m := <-n.Messages():
		return m
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: no message came", n.id.Slot)
		return mailbox.Incoming{}
	}
}

func nudge(epoch uint64) signal.Message {
	return signal.Message{Type: signal.Nudge, Epoch: epoch}
}

// sends retries until the other side is known.
func (n *node) sends(t testing.TB, to *node, m signal.Message) {
	t.Helper()
	var err error
	eventually(t, fmt.Sprintf("message from %s to %s", n.id.Slot, to.id.Slot), func() bool {
		err = n.Send(t.Context(), to.id, "", m)
		return err == nil
	})
}

// http makes a client with an SVID, or without one.
func (b *box) http(t testing.TB, cert *tls.Certificate) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.CA())
	c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if cert != nil {
		c.Certificates = []tls.Certificate{*cert}
	}
	transport := &http.Transport{TLSClientConfig: c}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// do makes one request and gives status and body.
func (b *box) do(t testing.TB, cert *tls.Certificate, method, path string, body []byte) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := b.http(t, cert)
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, got
}

// refused checks that a request is refused with a code.
func (b *box) refused(t testing.TB, cert *tls.Certificate, method, path string, body []byte, status int, code mailbox.Code) {
	t.Helper()
	got, answer := b.do(t, cert, method, path, body)
	var r mailbox.Refusal
	if err := json.Unmarshal(answer, &r); err != nil || got != status || r.Code != code || r.Kind != code.Kind() {
		t.Errorf("%s %s: status %d, answer %s, want %d %s", method, path, got, answer, status, code)
	}
}

// path names a mailbox.
func boxPath(id identity.ID, boot string) string {
	return mailbox.PathMailbox + "/" + id.Cluster + "/" + id.Group + "/" + id.Slot + "/" + boot
}

// eventually waits for a condition that nothing signals.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(15 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited too long for: %s", what)
		}
	}
}
