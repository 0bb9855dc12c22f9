package datagram

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
)

// A dialer that is turned away reads why, however soon the acceptor hangs up.
func TestRefusedDialerReadsTheGreeting(t *testing.T) {
	ca := newAuthority(t)
	a, b := newNode(t, ca, "a", limits{}), newNode(t, ca, "b", limits{})
	ctx := testContext(t)
	for range 50 {
		refused := make(chan error, 1)
		go func() {
			c, err := b.Accept(ctx)
			if err == nil {
				_, err = c.First().Write(frame.AppendGreeting(nil, frame.PeerNotAdmitted))
				c.Close(errors.New("not admitted"))
			}
			refused <- err
		}()
		c, err := a.Dial(ctx, b.addr(), a.clientTLS("b"))
		if err != nil {
			t.Fatal(err)
		}
		code, err := frame.ReadGreeting(c.First())
		c.Close(nil)
		if err != nil || code != frame.PeerNotAdmitted {
			t.Fatalf("greeting %v, error %v", code, err)
		}
		if err := <-refused; err != nil {
			t.Fatal(err)
		}
	}
}

// The wait for a dialer that does not hang up has a limit. After it, the dialer gets the
// reason once more.
func TestRefusalHasAnEnd(t *testing.T) {
	ca := newAuthority(t)
	a, b := newNode(t, ca, "a", limits{}), newNode(t, ca, "b", limits{linger: time.Millisecond})
	ctx := testContext(t)
	c, err := a.Dial(ctx, b.addr(), a.clientTLS("b"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(nil)
	far, err := b.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := far.First().Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	far.Close(errors.New("not admitted"))
	<-c.raw.Context().Done()
	if _, err := c.Client(ctx, nil); err == nil || !strings.Contains(err.Error(), "closed by peer: not admitted") {
		t.Errorf("session on a closed connection: %v", err)
	}
	if _, err := far.Server(ctx, nil); err == nil {
		t.Error("session on a connection that we closed")
	}
}

func TestWrongIdentitiesDoNotMeet_OVL05(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	a, b, foreign := newNode(t, ca, "a", limits{}), newNode(t, ca, "b", limits{}), newNode(t, other, "b", limits{})
	ctx := testContext(t)
	if _, err := a.Dial(ctx, b.addr(), a.clientTLS("c")); !errors.Is(err, identity.ErrMismatch) {
		t.Errorf("dial b as c: %v, want %v", err, identity.ErrMismatch)
	}
	if _, err := a.Dial(ctx, foreign.addr(), a.clientTLS("b")); !errors.Is(err, identity.ErrUntrusted) {
		t.Errorf("dial another cluster: %v, want %v", err, identity.ErrUntrusted)
	}
	// The client ends its handshake before the server looks at its certificate.
	trusting := a.clientTLS("b")
	trusting.VerifyConnection = nil
	c, err := a.Dial(ctx, foreign.addr(), trusting)
	if err == nil {
		_, err = frame.ReadGreeting(c.First())
		c.Close(nil)
	}
	if err == nil {
		t.Error("a server took a certificate of another cluster")
	}
	alpn := a.clientTLS("b")
	alpn.NextProtos = []string{"h3"}
	if _, err := a.Dial(ctx, b.addr(), alpn); err == nil {
		t.Error("a server took another protocol")
	}
	if n := b.Stats(); n.FailedHellos != 0 {
		t.Errorf("%d got as far as a hello", n.FailedHellos)
	}
}

// tickets counts the tickets that a server issues for resumption.
type tickets struct{ n atomic.Int64 }

func (c *tickets) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (c *tickets) Put(string, *tls.ClientSessionState)        { c.n.Add(1) }

func TestNothingIsResumed_OVL14(t *testing.T) {
	lax := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{ClientSessionCache: new(tickets)}, nil
	}}
	got := strict(lax)
	picked, err := got.GetConfigForClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*tls.Config{"outer": got, "picked": picked} {
		if !c.SessionTicketsDisabled || c.ClientSessionCache != nil || c.MinVersion != tls.VersionTLS13 {
			t.Errorf("%s configuration lets a client resume", name)
		}
	}
	ca := newAuthority(t)
	a, b := newNode(t, ca, "a", limits{}), newNode(t, ca, "b", limits{})
	ctx := testContext(t)
	given := new(tickets)
	eager := a.clientTLS("b")
	eager.SessionTicketsDisabled, eager.ClientSessionCache = false, given
	raw, err := a.quic.DialEarly(ctx, b.addr(), eager, a.limits.quicConfig())
	if err != nil {
		t.Fatal(err)
	}
	first, err := raw.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Write(frame.AppendHello(nil)); err != nil {
		t.Fatal(err)
	}
	far, err := b.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := far.First().Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	// A ticket would have come before this byte.
	if _, err := first.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if state := raw.ConnectionState(); given.n.Load() != 0 || state.TLS.DidResume || state.Used0RTT {
		t.Errorf("%d tickets, resumed %v, early data %v", given.n.Load(), state.TLS.DidResume, state.Used0RTT)
	}
	_ = raw.CloseWithError(0, "")
	far.Close(nil)
}

func TestClosedTransport(t *testing.T) {
	ca := newAuthority(t)
	a, b := newNode(t, ca, "a", limits{}), newNode(t, ca, "b", limits{})
	ctx := testContext(t)
	_, far := connect(t, a, b, "b", b.addr())
	accepting := make(chan error, 1)
	go func() {
		_, err := b.Accept(ctx)
		accepting <- err
	}()
	// These connections are never accepted.
	waiting, err := a.Dial(ctx, b.addr(), a.clientTLS("b"))
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close(nil)
	if err := <-accepting; err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := b.Accept(ctx)
		accepting <- err
	}()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-accepting; !errors.Is(err, ErrTransportClosed) {
		t.Errorf("accept: %v", err)
	}
	if _, err := b.Dial(ctx, a.addr(), b.clientTLS("a")); !errors.Is(err, ErrTransportClosed) {
		t.Errorf("dial: %v", err)
	}
	if err := b.Listen(b.serverTLS()); !errors.Is(err, ErrTransportClosed) {
		t.Errorf("listen: %v", err)
	}
	<-far.Done()
	far.Wait()
	if err := b.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func TestSetUpIsBounded(t *testing.T) {
	ca := newAuthority(t)
	a := newNode(t, ca, "a", limits{handshakeTime: 100 * time.Millisecond})
	hole, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	if _, err := a.Dial(testContext(t), hole.LocalAddr(), a.clientTLS("b")); err == nil {
		t.Error("dialed a socket that does not answer")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("try abandoned")
	cancel(stop)
	if _, err := a.Dial(ctx, hole.LocalAddr(), a.clientTLS("b")); !errors.Is(err, stop) {
		t.Errorf("dial: %v, want %v", err, stop)
	}
	if _, err := a.Accept(ctx); !errors.Is(err, stop) {
		t.Errorf("accept: %v, want %v", err, stop)
	}
	// Not a: on a busy machine a handshake takes longer than it allows.
	b, d := newNode(t, ca, "b", limits{}), newNode(t, ca, "d", limits{})
	c, err := b.Dial(testContext(t), d.addr(), b.clientTLS("d"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client(ctx, nil); !errors.Is(err, stop) {
		t.Errorf("session: %v, want %v", err, stop)
	}
	<-c.raw.Context().Done()
}
