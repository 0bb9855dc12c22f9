package mailbox

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/identity/identitytest"
	"cadre.dev/overlay/internal/signal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chaos is a rendezvous with arbitrary behaviour: its actions may only lose messages.
type chaos struct {
	t   testing.TB
	url string
	ca  []byte

	// Its behaviour, set before clients connect; nil is honest.
	onFind func(c *chaos, f Frame) []Boot
	// onSend returns the envelopes to deliver and their recipients, for one sent
	// envelope.
	onSend func(c *chaos, to string, envelope []byte)
	hello  Frame
	// onRevoke gives the answer to a revocation.
	onRevoke func(f Frame) Frame

	mu      sync.Mutex
	sockets map[string]*chaosSocket // by slot
	next    uint64
}

type chaosSocket struct {
	ws    *websocket.Conn
	boot  string
	chain [][]byte
	acked map[uint64]bool
}

func newChaos(t testing.TB) *chaos {
	c := &chaos{t: t, sockets: map[string]*chaosSocket{}, hello: Frame{Type: FrameHello}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	c.url = server.URL
	c.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return c
}

func (c *chaos) serve(w http.ResponseWriter, r *http.Request) {
	leaf := r.TLS.PeerCertificates[0]
	id, err := identity.ParseID(leaf.URIs[0].String())
	if err != nil {
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(MaxFrame)
	s := &chaosSocket{ws: ws, boot: identity.BootID(leaf), acked: map[uint64]bool{}}
	for _, cert := range r.TLS.PeerCertificates {
		s.chain = append(s.chain, cert.Raw)
	}
	c.mu.Lock()
	c.sockets[id.Slot] = s
	c.mu.Unlock()
	c.write(s, c.hello)
	for {
		_, b, err := ws.Read(context.Background())
		if err != nil {
			return
		}
		f, err := ParseFrame(b)
		if err != nil {
			c.t.Errorf("a client sent %s: %v", b, err)
			return
		}
		c.handle(s, f)
	}
}

func (c *chaos) handle(s *chaosSocket, f Frame) {
	switch f.Type {
	case FrameFind:
		boots := c.boots(f.Slot)
		if c.onFind != nil {
			boots = c.onFind(c, f)
		}
		if len(boots) == 0 {
			c.write(s, Frame{Type: FrameRefused, ID: f.ID, Code: CodeUnknown})
			return
		}
		c.write(s, Frame{Type: FrameFound, ID: f.ID, Boots: boots})
	case FrameSend:
		c.write(s, Frame{Type: FrameDone, ID: f.ID})
		to := c.recipient(f.Envelope)
		if c.onSend != nil {
			c.onSend(c, to, f.Envelope)
			return
		}
		c.deliver(to, f.Envelope)
	case FrameRevoke:
		c.write(s, c.onRevoke(f))
	case FrameAck:
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, id := range f.Messages {
			s.acked[id] = true
		}
	default:
		c.write(s, Frame{Type: FrameDone, ID: f.ID})
	}
}

func (c *chaos) boots(slot string) []Boot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sockets[slot]; s != nil {
		return []Boot{{Boot: s.boot, Chain: s.chain}}
	}
	return nil
}

func (c *chaos) deliver(slot string, envelope []byte) {
	c.mu.Lock()
	s := c.sockets[slot]
	c.next++
	id := c.next
	c.mu.Unlock()
	if s != nil {
		c.write(s, Frame{Type: FrameMessage, Messages: []uint64{id}, Envelope: envelope})
	}
}

func (c *chaos) write(s *chaosSocket, f Frame) {
	b, err := f.Encode()
	if err != nil {
		c.t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.ws.Write(ctx, websocket.MessageText, b)
}

func (c *chaos) acked(slot string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sockets[slot]; s != nil {
		return len(s.acked)
	}
	return 0
}

// member is a client at such servers.
type member struct {
	*Client
	id   identity.ID
	cert tls.Certificate
}

func newMember(t testing.TB, ca *identitytest.Authority, slot string, servers ...*chaos) *member {
	t.Helper()
	return newMemberAt(t, ca, slot, nil, servers...)
}

// newMemberAt is newMember with a wall clock of its own.
func newMemberAt(t testing.TB, ca *identitytest.Authority, slot string, now func() time.Time, servers ...*chaos) *member {
	t.Helper()
	m := &member{id: ca.ID("db", slot)}
	m.cert = ca.Issue(t, m.id)
	cfg := Config{Now: now, Identity: func() (Identity, bool) {
		return Identity{ID: m.id, Certificate: m.cert, Roots: ca.Pool}, true
	}}
	for _, s := range servers {
		cfg.Servers = append(cfg.Servers, Server{URL: s.url, CA: s.ca})
	}
	var err error
	if m.Client, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	eventually(t, slot+" connected", func() bool {
		for _, st := range m.Status() {
			if !st.Connected {
				return false
			}
		}
		return true
	})
	return m
}

func pick[T any](all []T) T { return all[rand.IntN(len(all))] }

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

// recipient reads the Slot that an envelope is for.
func (c *chaos) recipient(envelope []byte) string {
	h, err := signal.Peek(envelope)
	if err != nil {
		c.t.Errorf("a client sent an invalid envelope: %v", err)
	}
	return h.To.Slot
}
