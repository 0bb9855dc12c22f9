package dstacksdk

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"
)

// serve puts handler behind a unix socket.
func serve(t *testing.T, handler http.HandlerFunc) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return socket
}

func newClient(t *testing.T, socket string) *Client {
	t.Helper()
	c := New(socket)
	t.Cleanup(c.Close)
	return c
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// plain is the SDK's client as its documentation has it.
func plain(socket string) *dstack.DstackClient {
	return dstack.NewDstackClient(dstack.WithEndpoint(socket))
}

// TestALongReplyIsCutOffBeforeItIsParsed: the SDK's own transport reads all of it.
func TestALongReplyIsCutOffBeforeItIsParsed(t *testing.T) {
	socket := serve(t, answer(`{"version":"1"}`+strings.Repeat(" ", maxReply)))
	if _, err := plain(socket).GetVersion(t.Context()); err != nil {
		t.Errorf("the SDK bounds replies now (%v): is our own transport still needed?", err)
	}
	if _, err := newClient(t, socket).Version(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("error %v", err)
	}
}

// TestARedirectLeadsNowhere: the SDK's own transport would carry the request on.
func TestARedirectLeadsNowhere(t *testing.T) {
	socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/Version" {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return
		}
		_, _ = io.WriteString(w, `{"version":"elsewhere"}`)
	})
	if v, err := plain(socket).GetVersion(t.Context()); err != nil || v.Version != "elsewhere" {
		t.Errorf("the SDK follows no redirect now: %v, %v", v, err)
	}
	if v, err := newClient(t, socket).Version(t.Context()); err == nil {
		t.Errorf("followed to %q", v)
	}
}

// TestOneNameTwiceIsRefused: the SDK takes the last.
func TestOneNameTwiceIsRefused(t *testing.T) {
	socket := serve(t, answer(`{"version":"1","version":"2"}`))
	if v, err := plain(socket).GetVersion(t.Context()); err != nil || v.Version != "2" {
		t.Errorf("the SDK: %v, %v", v, err)
	}
	if v, err := newClient(t, socket).Version(t.Context()); err == nil {
		t.Errorf("took %q", v)
	}
}

// TestTheEnvironmentNamesNoAgent: without an endpoint the SDK asks whom the
// environment names, and env values are the host's.
func TestTheEnvironmentNamesNoAgent(t *testing.T) {
	var asked atomic.Int32
	hosts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, `{"version":"the host's"}`)
	}))
	defer hosts.Close()
	t.Setenv("DSTACK_SIMULATOR_ENDPOINT", hosts.URL)
	if v, err := dstack.NewDstackClient().GetVersion(t.Context()); err != nil || v.Version != "the host's" {
		t.Errorf("the SDK ignores the environment now: %v, %v", v, err)
	}
	before := asked.Load()
	v, err := newClient(t, serve(t, answer(`{"version":"1"}`))).Version(t.Context())
	if err != nil || v != "1" {
		t.Errorf("version %q, error %v", v, err)
	}
	if _, err := newClient(t, "").Version(t.Context()); err == nil {
		t.Error("an answer without an agent")
	}
	if asked.Load() != before {
		t.Error("the address in the environment was asked")
	}
}

// TestOtherCallsKeepTheirTransport: this package's addition to the process's transport affects its
// own calls only, and two clients do not mix.
func TestOtherCallsKeepTheirTransport(t *testing.T) {
	one := newClient(t, serve(t, answer(`{"version":"one"}`)))
	two := newClient(t, serve(t, answer(`{"version":"two"}`)))
	other := httptest.NewServer(answer("other"))
	defer other.Close()
	for range 2 {
		for want, c := range map[string]*Client{"one": one, "two": two} {
			if v, err := c.Version(t.Context()); err != nil || v != want {
				t.Errorf("version %q of %s, error %v", v, want, err)
			}
		}
		resp, err := http.Get(other.URL)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(text) != "other" {
			t.Errorf("read %q", text)
		}
	}
}

// TestAReplacedTransportIsAnError: calls would go to this machine's port 80.
func TestAReplacedTransportIsAnError(t *testing.T) {
	c := newClient(t, serve(t, answer(`{"version":"1"}`)))
	if _, err := c.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	standard := http.DefaultTransport
	defer func() { http.DefaultTransport = standard }()
	http.DefaultTransport = &http.Transport{}
	if _, err := c.Version(t.Context()); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("error %v", err)
	}
}

// TestACallEndsWithItsContext, while the agent is silent.
func TestACallEndsWithItsContext(t *testing.T) {
	asked := make(chan struct{}, 1)
	release := make(chan struct{})
	socket := serve(t, func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-release })
	defer close(release)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-asked; cancel(io.ErrClosedPipe) }()
	if _, err := newClient(t, socket).Version(ctx); err == nil || !strings.Contains(err.Error(), io.ErrClosedPipe.Error()) {
		t.Errorf("error %v, want the cause", err)
	}
}

func TestAnAgentThatComesLaterIsFound(t *testing.T) {
	if socketPath("") == "" || socketPath("/x") != "/x" {
		t.Errorf("sockets %q and %q", socketPath(""), socketPath("/x"))
	}
	socket := filepath.Join(t.TempDir(), "late.sock")
	c := newClient(t, socket)
	if _, err := c.Version(t.Context()); err == nil {
		t.Error("an answer without a server")
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer(`{"version":"1"}`)}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	defer func() { _ = server.Close(); <-done }()
	if v, err := c.Version(t.Context()); err != nil || v != "1" {
		t.Errorf("version %q, error %v", v, err)
	}
}
