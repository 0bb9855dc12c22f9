package mailbox

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/signal"
)

const (
	// findLife is how long a found certificate is used without asking again.
	// A wrong one costs a refusal and a new search, never more.
	findLife = 30 * time.Second
	maxKnown = 1024
	// sendTime bounds the delay that a slow server can cause to a Send.
	sendTime = 5 * time.Second
)

// errSlowServer ends a request that a server lets wait.
var errSlowServer = errors.New("rendezvous did not answer in time")

// found is one server's verified answer about a Slot.
type found struct {
	boots []knownBoot // newest connection first, as the server says
	at    time.Time
}

// knownBoot has only the leaf certificate, as received: a node that has communicated with
// all its Peers holds one for each.
type knownBoot struct {
	boot string
	leaf []byte // DER, verified
}

// Send seals m for a Boot of to and hands it to every connected server that knows that
// Boot; boot "" selects any verified Boot that the server knows. It returns nil as soon
// as one server accepted the message. The recipient may still miss the message: only its
// answer is a proof. Errors: [ErrNoServer], [ErrUnknown], *[Refusal], and
// signal.ErrMessage for a message that must not be sent.
func (c *Client) Send(ctx context.Context, to identity.ID, boot string, m signal.Message) error {
	me, ok := c.identity()
	if !ok {
		return fmt.Errorf("%w: this node has no identity yet", ErrNoServer)
	}
	if to.Cluster != me.ID.Cluster {
		return fmt.Errorf("%w: %s is of another cluster", signal.ErrMessage, to)
	}
	// One message has one sequence number at all servers, so that the recipient accepts
	// it once.
	letter := &letter{me: me, to: to, message: m, seq: c.nextSeq(), now: c.now, sealed: map[string][]byte{}}
	var sessions []*session
	c.mu.Lock()
	if c.running {
		for _, s := range c.servers {
			if ses := s.current(); ses != nil {
				sessions = append(sessions, ses)
			}
		}
	}
	results := make(chan error, len(sessions))
	// A slow server must not make the message late, and a caller that has its answer must
	// not cancel it for the others. A caller that gives up waits for no server: a later
	// answer would come too late, and at the cost of the next message.
	within, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), sendTime, errSlowServer)
	taken := false
	defer func() {
		if !taken {
			cancel()
		}
	}()
	for _, ses := range sessions {
		c.sends.Go(func() { results <- ses.send(within, letter, boot) })
	}
	c.mu.Unlock()
	if len(sessions) == 0 {
		return ErrNoServer
	}
	var errs []error
	for range sessions {
		select {
		case err := <-results:
			if err == nil {
				taken = true
				return nil
			}
			errs = append(errs, err)
		case <-ctx.Done():
			return fmt.Errorf("send %s to %s: %w", m.Type, to, context.Cause(ctx))
		}
	}
	return fmt.Errorf("send %s to %s: %w", m.Type, to, errors.Join(errs...))
}

// letter is one message, sealed once for each Boot that it goes to.
type letter struct {
	me      Identity
	to      identity.ID
	message signal.Message
	seq     uint64
	now     func() time.Time

	mu     sync.Mutex
	sealed map[string][]byte
}

func (l *letter) envelope(to knownBoot) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.sealed[to.boot]; b != nil {
		return b, nil
	}
	leaf, err := x509.ParseCertificate(to.leaf)
	if err != nil {
		return nil, fmt.Errorf("%w: certificate of %s: %w", signal.ErrMessage, l.to, err)
	}
	b, err := signal.Seal(l.message, l.me.Certificate, l.me.ID, l.to, leaf, l.seq, l.now())
	if err == nil {
		l.sealed[to.boot] = b
	}
	return b, err
}

// send hands l to one server. The server's earlier answer about the recipient may be old:
// then the server is asked again, once.
func (ses *session) send(ctx context.Context, l *letter, boot string) error {
	for again := false; ; again = true {
		to, fresh, err := ses.find(ctx, l.to, boot, again)
		if err != nil {
			return err
		}
		envelope, err := l.envelope(to)
		if err != nil {
			return err
		}
		_, err = ses.patiently(ctx, Frame{Type: FrameSend, Envelope: envelope})
		var refused *Refusal
		if errors.As(err, &refused) && refused.Code == CodeUnknown && !fresh {
			continue
		}
		if err == nil {
			ses.server.count(func(st *ServerStatus) { st.Sent++ })
		}
		return err
	}
}

// patiently makes a request again while the server says that we make too many:
// a node that starts has something to say to all its Peers at once. From then on
// requests keep to the pace that the server asks for.
func (ses *session) patiently(ctx context.Context, f Frame) (Frame, error) {
	for {
		if !ses.pace.wait(ctx) {
			return Frame{}, context.Cause(ctx)
		}
		answer, err := ses.request(ctx, f)
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Code != CodeRate {
			return answer, err
		}
		ses.pace.slow(time.Duration(min(refused.RetryMillis, paceMax.Milliseconds())) * time.Millisecond)
	}
}

// find gives the Boot to send to, and whether the server was asked just now.
func (ses *session) find(ctx context.Context, to identity.ID, boot string, anew bool) (knownBoot, bool, error) {
	if !anew {
		ses.mu.Lock()
		f, ok := ses.known[to]
		ses.mu.Unlock()
		if ok && time.Since(f.at) < findLife {
			if b, ok := f.pick(boot); ok {
				return b, false, nil
			}
		}
	}
	answer, err := ses.patiently(ctx, Frame{Type: FrameFind, Group: to.Group, Slot: to.Slot})
	var refused *Refusal
	switch {
	case errors.As(err, &refused) && refused.Code == CodeUnknown:
		return knownBoot{}, true, ErrUnknown
	case err != nil:
		return knownBoot{}, true, err
	}
	f := found{boots: ses.verify(to, answer.Boots), at: time.Now()}
	ses.note(to, f)
	if b, ok := f.pick(boot); ok {
		return b, true, nil
	}
	return knownBoot{}, true, ErrUnknown
}

func (ses *session) note(to identity.ID, f found) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if len(ses.known) >= maxKnown {
		clear(ses.known)
	}
	ses.known[to] = f
}

// forgetOld drops answers that are too old for use.
func (ses *session) forgetOld() {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	maps.DeleteFunc(ses.known, func(_ identity.ID, f found) bool { return time.Since(f.at) >= findLife })
}

// remember stores the certificate of the latest sender and spares a search for it: an
// answer goes out a round trip earlier.
func (ses *session) remember(from identity.ID, b knownBoot) {
	ses.note(from, found{boots: []knownBoot{b}, at: time.Now()})
}

// verify keeps the Boots with chains that lead to the cluster CA. A server that invents
// Boots, or names those of another Slot, gains nothing.
func (ses *session) verify(to identity.ID, boots []Boot) []knownBoot {
	roots := ses.present().Roots
	var good []knownBoot
	for _, b := range boots {
		chain := make([]*x509.Certificate, 0, len(b.Chain))
		for _, der := range b.Chain {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				break
			}
			chain = append(chain, c)
		}
		who, err := signal.VerifyChain(chain, roots, to.Cluster)
		if err != nil || who.ID != to || who.BootID != b.Boot {
			if ses.server.mayWarn("certificate") {
				ses.server.log.Warn("offered certificate ignored", "peer", to.String(), "error", err)
			}
			continue
		}
		good = append(good, knownBoot{boot: who.BootID, leaf: bytes.Clone(chain[0].Raw)})
	}
	return good
}

func (f found) pick(boot string) (knownBoot, bool) {
	for _, b := range f.boots {
		if boot == "" || b.boot == boot {
			return b, true
		}
	}
	return knownBoot{}, false
}
