package rendezvous

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/internal/signal"
)

// socket opens a mailbox by hand, for clients that misbehave.
func (w *world) socket(s *box, slot string) (*websocket.Conn, *node) {
	w.t.Helper()
	n := &node{id: w.ca.ID("db", slot)}
	n.cert = w.ca.Issue(w.t, n.id)
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, strings.Replace(s.url, "https", "wss", 1)+mailbox.PathMailbox,
		&websocket.DialOptions{HTTPClient: s.http(w.t, &n.cert)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = ws.CloseNow() })
	ws.SetReadLimit(mailbox.MaxFrame)
	return ws, n
}

func TestRateLimit(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	ws, _ := w.socket(s, "db-1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var refused mailbox.Frame
	for id := uint64(1); refused.Code != mailbox.CodeRate; id++ {
		ask, err := mailbox.Frame{Type: mailbox.FrameFind, ID: id, Group: "db", Slot: "nobody"}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.Write(ctx, websocket.MessageText, ask); err != nil {
			t.Fatal(err)
		}
		for refused = (mailbox.Frame{}); refused.ID != id; {
			_, b, err := ws.Read(ctx)
			if err != nil {
				t.Fatalf("after %d requests: %v", id, err)
			}
			if refused, err = mailbox.ParseFrame(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if refused.RetryMillis <= 0 {
		t.Errorf("no advice when to try again: %+v", refused)
	}
	// Another member is unaffected, and sends more than its burst: the messages take
	// their time, and all arrive.
	a, b := w.node("db", "db-0", s), w.node("db", "db-2", s)
	a.sends(t, b, nudge(0))
	b.next(t)
	for range 80 {
		if err := a.Send(ctx, b.id, "", nudge(0)); err != nil {
			t.Fatal(err)
		}
		b.next(t)
	}
}

func TestMailboxOfASlowMemberIsBounded(t *testing.T) {
	w := newWorld(t)
	s := w.server(func(c *Config) { c.Limits.Requests, c.Limits.RequestsBurst = 10_000, 10_000 })
	_, silent := w.socket(s, "db-1") // never acknowledges
	a := w.node("db", "db-0", s)
	a.sends(t, silent, nudge(1))
	var refused *mailbox.Refusal
	for range 100 {
		if err := a.Send(t.Context(), silent.id, "", nudge(1)); errors.As(err, &refused) {
			break
		}
	}
	if refused == nil || refused.Code != mailbox.CodeOverloaded || refused.Kind != mailbox.KindRetry {
		t.Errorf("100 messages to a client that does not read: refusal %v, want %s", refused, mailbox.CodeOverloaded)
	}
	if got := s.mailboxes.Counts().Waiting; got != 64 {
		t.Errorf("%d messages wait, want 64", got)
	}
	b := w.node("db", "db-2", s)
	a.sends(t, b, nudge(2))
	b.next(t)
}

func TestAClientThatDoesNotReadIsDisconnected(t *testing.T) {
	w := newWorld(t)
	s := w.server(func(c *Config) { c.Limits.Requests, c.Limits.RequestsBurst = 1e6, 1e6 })
	ws, _ := w.socket(s, "db-1")
	w.node("db", "db-0", s).connected(t, 1)
	ask, err := mailbox.Frame{Type: mailbox.FrameFind, ID: 1, Group: "db", Slot: "db-0"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for err == nil {
		err = ws.Write(ctx, websocket.MessageText, ask)
	}
	if ctx.Err() != nil {
		t.Fatal("a client that never reads is served without end")
	}
	eventually(t, "one member", func() bool { return s.front.Sockets() == 1 })
}

func TestStrangeFramesEndTheConnection(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	for name, frame := range map[string]string{
		"no JSON":         "hello",
		"unknown field":   `{"type":"ack","messages":[1],"x":1}`,
		"a server's":      `{"type":"hello"}`,
		"incomplete":      `{"type":"send","id":1}`,
		"two at once":     `{"type":"ack","messages":[1]}{"type":"ack","messages":[1]}`,
		"longer than may": `{"type":"ack","messages":[1]}` + strings.Repeat(" ", mailbox.MaxFrame),
	} {
		ws, _ := w.socket(s, "db-1")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_ = ws.Write(ctx, websocket.MessageText, []byte(frame))
		var err error
		for err == nil {
			_, _, err = ws.Read(ctx)
		}
		if ctx.Err() != nil {
			t.Errorf("%s: the connection goes on", name)
		}
		cancel()
	}
}

func TestMembersAreBounded(t *testing.T) {
	w := newWorld(t)
	s := w.server(func(c *Config) { c.Limits.Sockets = 1 })
	a := w.node("db", "db-0", s)
	a.connected(t, 1)
	b := w.node("db", "db-1", s)
	eventually(t, "a refusal", func() bool { return strings.Contains(b.Status()[0].Error, string(mailbox.CodeOverloaded)) })
}

func TestMailboxOnly(t *testing.T) {
	w := newWorld(t)
	s := w.server(func(c *Config) { c.STUN, c.Admin = nil, "" })
	a, b := w.node("db", "db-0", s), w.node("db", "db-1", s)
	a.sends(t, b, signal.Message{Type: signal.Bye, Search: "0123456789abcdef"})
	b.next(t)
	if len(a.ICEServers())+len(a.Reflectors()) != 0 || s.AdminAddr() != nil {
		t.Error("something is offered that is not there")
	}
	if status, _ := s.do(t, &a.cert, "POST", mailbox.PathCredentials, nil); status != http.StatusOK {
		t.Errorf("credentials: status %d", status)
	}
}

func TestConfigNamesAllProblems(t *testing.T) {
	_, err := New(t.Context(), Config{Listen: "x", Admin: "y", STUN: []string{"z"}, CertFile: "c", PortMin: 5, Limits: Limits{Sockets: -1, CredentialLife: time.Hour}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"listen address", "admin address", "STUN address", "cluster CAs", "come together", "relay address", "relay ports", "sockets is -1", "good for 1h"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}
