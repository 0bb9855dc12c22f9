package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"

	"github.com/coder/websocket"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/segment"
)

const (
	dialTime  = 10 * time.Second
	writeTime = 10 * time.Second
	pingEvery = 5 * time.Second
	pingTime  = 8 * time.Second
)

var (
	errEnded = errors.New("connection to the rendezvous ended")
	errAway  = errors.New("rendezvous is going away")
)

// session is one connection to one server.
type session struct {
	server *server
	me     Identity
	ws     *websocket.Conn
	remote netip.Addr
	done   chan struct{} // closed when nothing will be answered any more
	pace   *pacer

	mu      sync.Mutex
	nextID  uint64
	answers map[uint64]chan Frame
	known   map[identity.ID]found
}

// connect runs one connection to its end.
func (s *server) connect(ctx context.Context, me Identity) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ses := &session{
		server: s, me: me, done: make(chan struct{}), pace: newPacer(),
		answers: map[uint64]chan Frame{}, known: map[identity.ID]found{},
	}
	defer close(ses.done)
	dialer := &net.Dialer{Control: segment.Small}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: s.tlsConfig(me), DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	if err := ses.dial(ctx, transport); err != nil {
		return err
	}
	defer ses.ws.CloseNow() //nolint:errcheck // nothing is left to be said
	hello, err := ses.read(ctx)
	if err != nil {
		return fmt.Errorf("wait for hello: %w", err)
	}
	if hello.Type != FrameHello {
		return fmt.Errorf("%w: first frame is %s, want hello", ErrWire, hello.Type)
	}
	s.setOffer(ses.acceptable(hello))

	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { stop(ses.keep(ctx)) })
	wg.Go(func() { ses.revoker(ctx) })
	s.connected(ses)
	for {
		f, err := ses.read(ctx)
		if err == nil {
			err = ses.handle(ctx, f)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			stop(err)
			return err
		}
	}
}

func (ses *session) dial(ctx context.Context, transport http.RoundTripper) error {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, errors.New("no answer in time"))
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if a, ok := info.Conn.RemoteAddr().(*net.TCPAddr); ok {
			ses.remote = a.AddrPort().Addr().Unmap()
		}
	}})
	ws, resp, err := websocket.Dial(ctx, ses.server.url, &websocket.DialOptions{HTTPClient: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	if err != nil {
		if resp != nil && resp.Body != nil {
			defer resp.Body.Close()
			if r := readRefusal(resp); r != nil {
				return fmt.Errorf("connect: %w", r)
			}
		}
		return fmt.Errorf("connect: %w", err)
	}
	ws.SetReadLimit(MaxFrame)
	ses.ws = ws
	return nil
}

// readRefusal returns the server's refusal to switch protocols, of which the library
// keeps the first kilobyte; nil for any other answer.
func readRefusal(resp *http.Response) *Refusal {
	var r Refusal
	if b, err := io.ReadAll(io.LimitReader(resp.Body, MaxFrame)); err == nil && Decode(b, &r) == nil && r.Code != "" {
		return &r
	}
	return nil
}

func (ses *session) read(ctx context.Context) (Frame, error) {
	kind, b, err := ses.ws.Read(ctx)
	if err != nil {
		return Frame{}, err
	}
	if kind != websocket.MessageText {
		return Frame{}, fmt.Errorf("%w: binary message", ErrWire)
	}
	return ParseFrame(b)
}

func (ses *session) write(ctx context.Context, f Frame) error {
	b, err := f.Encode()
	if err != nil {
		return err
	}
	// Not the caller's ctx: a ctx that ends during a write ends the connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	return ses.ws.Write(ctx, websocket.MessageText, b)
}

// handle takes one frame of the server; an error ends the connection.
func (ses *session) handle(ctx context.Context, f Frame) error {
	switch f.Type {
	case FrameFound, FrameDone, FrameRefused:
		ses.mu.Lock()
		answer := ses.answers[f.ID]
		delete(ses.answers, f.ID)
		ses.mu.Unlock()
		if answer != nil {
			answer <- f // has room for one
		}
	case FrameMessage:
		if ses.receive(f.Envelope) {
			return ses.write(ctx, Frame{Type: FrameAck, Messages: f.Messages})
		}
	case FrameCredentials, FrameHello:
		ses.server.setOffer(ses.acceptable(f))
	case FrameGoodbye:
		return fmt.Errorf("%w: %s %.100s", errAway, f.Code, f.Text)
	default:
		return fmt.Errorf("%w: %s is no server's", ErrWire, f.Type)
	}
	return nil
}

// request sends f and waits for its answer.
func (ses *session) request(ctx context.Context, f Frame) (Frame, error) {
	answer := make(chan Frame, 1)
	ses.mu.Lock()
	ses.nextID++
	f.ID = ses.nextID
	ses.answers[f.ID] = answer
	ses.mu.Unlock()
	defer func() {
		ses.mu.Lock()
		delete(ses.answers, f.ID)
		ses.mu.Unlock()
	}()
	if err := ses.write(ctx, f); err != nil {
		return Frame{}, err
	}
	select {
	case got := <-answer:
		if got.Type == FrameRefused {
			return got, &Refusal{Kind: got.Code.Kind(), Code: got.Code, Message: got.Text, RetryMillis: got.RetryMillis}
		}
		return got, nil
	case <-ses.done:
		return Frame{}, errEnded
	case <-ctx.Done():
		return Frame{}, context.Cause(ctx)
	}
}

// keep measures the round trip, and ends the connection when it is dead or
// when there is a newer certificate.
func (ses *session) keep(ctx context.Context) error {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	look := time.NewTicker(identityPoll)
	defer look.Stop()
	if err := ses.ping(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ping.C:
			ses.forgetOld()
			if err := ses.ping(ctx); err != nil {
				return err
			}
		case <-look.C:
			me, ok := ses.server.client.identity()
			if ok && (me.ID != ses.me.ID || !sameLeaf(me, ses.me)) {
				return errRenewed
			}
		}
	}
}

// present is the node's present identity: the CA may change while a connection lasts.
func (ses *session) present() Identity {
	if me, ok := ses.server.client.identity(); ok {
		return me
	}
	return ses.me
}

func sameLeaf(a, b Identity) bool {
	x, y := a.Certificate.Certificate, b.Certificate.Certificate
	return len(x) > 0 && len(y) > 0 && bytes.Equal(x[0], y[0])
}

func (ses *session) ping(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	begun := time.Now()
	if err := ses.ws.Ping(within); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	rtt := time.Since(begun)
	ses.server.count(func(st *ServerStatus) {
		if st.RTT == 0 {
			st.RTT = rtt
		} else {
			st.RTT += (rtt - st.RTT) / 8
		}
	})
	return nil
}

// revoker sends the server the list of ended Boots, until the server has acknowledged it.
func (ses *session) revoker(ctx context.Context) {
	wait := backoffMin
	for {
		err := ses.sendRevoked(ctx)
		if ctx.Err() != nil {
			return
		}
		var again <-chan time.Time
		var refused *Refusal
		switch {
		case err == nil:
			wait = backoffMin
		case errors.As(err, &refused) && refused.Kind != KindRetry:
			// The server refuses this coordinator's lists: a retry changes nothing.
			ses.server.log.Warn("rendezvous refused revoked boots", "error", err)
		default:
			ses.server.log.Warn("rendezvous has not accepted revoked boots yet", "error", err, "again", wait)
			again = time.After(wait/2 + rand.N(wait)) //nolint:gosec // jitter, no secret
			wait = min(2*wait, backoffMax)
		}
		select {
		case <-again:
		case <-ses.server.revoke:
		case <-ctx.Done():
			return
		}
	}
}

// sendRevoked hands the list over as it is now.
func (ses *session) sendRevoked(ctx context.Context) error {
	boots, ok := ses.server.client.revokedBoots()
	if !ok {
		return nil
	}
	within, cancel := context.WithTimeoutCause(ctx, sendTime, errSlowServer)
	defer cancel()
	_, err := ses.patiently(within, Frame{Type: FrameRevoke, Revoked: boots})
	return err
}
