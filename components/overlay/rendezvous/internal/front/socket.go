package front

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/coder/websocket"

	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/rendezvous/internal/member"
	"cadre.dev/overlay/rendezvous/internal/post"
)

const (
	// answers is how many a client may leave unread before it is left.
	answers = 64
	// writeTime bounds the write of one frame.
	writeTime = 10 * time.Second
	// silence is how long a client may be quiet; it pings every few seconds.
	pingEvery = 15 * time.Second
	pingTime  = 10 * time.Second
	// look is how often messages are looked at that were not acknowledged.
	look = time.Second
)

var (
	errLeaving   = errors.New("the rendezvous is going away")
	errUntrusted = errors.New("the certificate is no longer accepted")
	errReplaced  = errors.New("the boot has connected again")
	errRevoked   = errors.New("the boot has ended")
	errSlow      = errors.New("the client does not read")
	errFrame     = errors.New("the client sent an invalid frame")
)

// socket is one connected member.
type socket struct {
	front *Front
	who   member.Caller
	at    netip.Addr
	host  string // by which the member has reached us
	tls   *tls.ConnectionState
	ws    *websocket.Conn
	box   *post.Box
	out   chan mailbox.Frame
	stop  context.CancelCauseFunc
}

func (f *Front) serveSocket(w http.ResponseWriter, r *http.Request, who member.Caller) {
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	s := &socket{
		front: f, who: who, at: remote(r), host: r.Host, tls: r.TLS, out: make(chan mailbox.Frame, answers), stop: stop,
	}
	if !f.enter(s) {
		f.refuse(w, refusal(mailbox.CodeOverloaded, "no room, or going away"))
		return
	}
	defer f.exit(s)
	var err error
	if s.ws, err = websocket.Accept(w, r, nil); err != nil {
		return // it has answered
	}
	defer s.ws.CloseNow() //nolint:errcheck // nothing is left to be said
	s.ws.SetReadLimit(mailbox.MaxFrame)
	if s.box, err = f.cfg.Mailboxes.Attach(who.Member, who.Chain, f.cfg.Now()); err != nil {
		s.say(ctx, mailbox.CodeOverloaded, err)
		return
	}
	defer func() { s.box.Detach(f.cfg.Now()) }()
	// A revocation since the request came found no mailbox to close.
	if f.cfg.Revoked.Has(who.Member) {
		s.say(ctx, mailbox.CodeRevoked, errRevoked)
		return
	}
	f.log.Info("member connected", "peer", who.ID.String(), "boot", who.Boot[:12])

	done := make(chan struct{})
	go func() {
		defer close(done)
		stop(s.write(ctx))
		// The reader waits in the library: only this wakes it.
		_ = s.ws.CloseNow()
	}()
	err = s.read(ctx)
	stop(err)
	<-done
	f.log.Info("member gone", "peer", who.ID.String(), "boot", who.Boot[:12], "error", context.Cause(ctx))
}

func (f *Front) enter(s *socket) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leaving || len(f.sockets) >= f.cfg.Sockets {
		return false
	}
	f.sockets[s] = struct{}{}
	f.wg.Add(1)
	return true
}

func (f *Front) exit(s *socket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sockets, s)
	f.wg.Done()
}

// Sockets is how many are connected.
func (f *Front) Sockets() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sockets)
}

// read takes the client's frames until it goes or misbehaves. ctx must not be a cancelled
// one: that would cut the goodbye off.
func (s *socket) read(ctx context.Context) error {
	for {
		kind, b, err := s.ws.Read(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		if kind != websocket.MessageText {
			return errFrame
		}
		f, err := mailbox.ParseFrame(b)
		if err != nil {
			return errors.Join(errFrame, err)
		}
		if f.Type == mailbox.FrameAck {
			s.box.Ack(f.Messages)
			continue
		}
		answer, err := s.handle(f)
		if err != nil {
			return err
		}
		select {
		case s.out <- answer:
		default:
			return errSlow
		}
	}
}

// handle answers one request.
func (s *socket) handle(f mailbox.Frame) (mailbox.Frame, error) {
	s.front.cfg.Meter.Request(string(f.Type))
	if s.front.cfg.Revoked.Has(s.who.Member) {
		return mailbox.Frame{}, errRevoked
	}
	refused := s.front.spend(string(f.Type), s.who.ID)
	answer := mailbox.Frame{Type: mailbox.FrameDone, ID: f.ID}
	switch {
	case refused != nil:
	case f.Type == mailbox.FrameFind:
		answer.Type = mailbox.FrameFound
		answer.Boots, refused = s.front.find(s.who, f.Group, f.Slot)
	case f.Type == mailbox.FrameSend:
		refused = s.front.send(s.who, f.Envelope)
	case f.Type == mailbox.FrameRevoke:
		refused = s.front.revoke(s.who, f.Revoked)
	default:
		return answer, errFrame
	}
	if refused != nil {
		s.front.cfg.Meter.Refused(string(refused.Code))
		answer = mailbox.Frame{
			Type: mailbox.FrameRefused, ID: f.ID,
			Code: refused.Code, Text: refused.Message, RetryMillis: refused.RetryMillis,
		}
	}
	return answer, nil
}

// write sends all frames to the client, until ctx ends.
func (s *socket) write(ctx context.Context) error {
	offer, expires := s.front.offer(s.who, s.at, s.host)
	if err := s.put(ctx, mailbox.Frame{Type: mailbox.FrameHello, ICE: offer.ICE, Reflectors: offer.Reflectors}); err != nil {
		return err
	}
	renew := time.NewTimer(s.renewal(expires))
	defer renew.Stop()
	leaf := time.NewTimer(s.who.Expires.Sub(s.front.cfg.Now()))
	defer leaf.Stop()
	again := time.NewTicker(look)
	defer again.Stop()
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		messages, wake := s.box.Due(s.front.cfg.Now())
		for _, l := range messages {
			if err := s.put(ctx, mailbox.Frame{Type: mailbox.FrameMessage, Messages: []uint64{l.ID}, Envelope: l.Envelope}); err != nil {
				return err
			}
		}
		select {
		case f := <-s.out:
			if err := s.put(ctx, fitting(f)); err != nil {
				return err
			}
		case <-wake:
		case <-again.C:
		case <-renew.C:
			offer, expires = s.front.offer(s.who, s.at, s.host)
			if err := s.put(ctx, mailbox.Frame{Type: mailbox.FrameCredentials, ICE: offer.ICE, Reflectors: offer.Reflectors}); err != nil {
				return err
			}
			renew.Reset(s.renewal(expires))
		case <-ping.C:
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTime)
			err := s.ws.Ping(within)
			cancel()
			if err != nil {
				return err
			}
		case <-leaf.C:
			s.say(ctx, mailbox.CodeUntrusted, errUntrusted)
			return errUntrusted
		case <-s.box.Ended():
			return s.taken(ctx)
		case <-ctx.Done():
			return s.goodbye(ctx)
		}
	}
}

// renewal is when the next credentials are minted: at half their life.
func (s *socket) renewal(expires time.Time) time.Duration {
	if expires.IsZero() {
		return time.Hour
	}
	return max(expires.Sub(s.front.cfg.Now())/2, time.Second)
}

func (s *socket) taken(ctx context.Context) error {
	if s.box.Why() == post.EndRevoked {
		s.say(ctx, mailbox.CodeRevoked, errRevoked)
		return errRevoked
	}
	s.say(ctx, mailbox.CodeOverloaded, errReplaced)
	return errReplaced
}

func (s *socket) goodbye(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errLeaving):
		s.say(ctx, mailbox.CodeOverloaded, cause)
	case errors.Is(cause, errRevoked):
		s.say(ctx, mailbox.CodeRevoked, cause)
	case errors.Is(cause, errUntrusted):
		s.say(ctx, mailbox.CodeUntrusted, cause)
	case errors.Is(cause, errSlow), errors.Is(cause, errFrame):
		s.say(ctx, mailbox.CodeRequest, cause)
	}
	return cause
}

// say sends the client the reason for the end of its connection.
func (s *socket) say(ctx context.Context, code mailbox.Code, why error) {
	s.front.cfg.Meter.Refused(string(code))
	text := why.Error()
	if len(text) > 200 {
		text = text[:200]
	}
	_ = s.put(ctx, mailbox.Frame{Type: mailbox.FrameGoodbye, Code: code, Text: text})
	_ = s.ws.Close(websocket.StatusGoingAway, "")
}

// fitting returns f, or a refusal in place of an f that cannot be encoded: messages from
// other members must not end the reader's connection.
func fitting(f mailbox.Frame) mailbox.Frame {
	if _, err := f.Encode(); err == nil {
		return f
	}
	return mailbox.Frame{Type: mailbox.FrameRefused, ID: f.ID, Code: mailbox.CodeTooLarge, Text: "the answer is too long"}
}

func (s *socket) put(ctx context.Context, f mailbox.Frame) error {
	b, err := f.Encode()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	return s.ws.Write(ctx, websocket.MessageText, b)
}
