package overlay

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
)

// Certificates live for an hour and connections for days. A Session does not outlast
// the certificate that the Peer showed last: each side shows its newer ones on the
// Sessions that live, and a Peer that is refused one loses its Sessions in time.

// expiry ends a Session with the Peer's certificate. Safe for concurrent use.
type expiry struct {
	end func()

	mu    sync.Mutex
	at    time.Time
	timer *time.Timer // nil before start and after stop
}

func (e *expiry) start(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at, e.timer = at, time.AfterFunc(time.Until(at), e.end)
}

// extend moves the end; an earlier one than the present is of an older certificate.
func (e *expiry) extend(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// A timer that has fired ends the Session whatever comes now.
	if e.timer != nil && at.After(e.at) && e.timer.Stop() {
		e.at = at
		e.timer.Reset(time.Until(at))
	}
}

func (e *expiry) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}

// until is when the Session ends; zero before start.
func (e *expiry) until() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at
}

const (
	// showTime bounds one showing; showAgain is the pause before the next try.
	showTime  = 10 * time.Second
	showAgain = 15 * time.Second
	showTries = 4
)

// showAll shows the node's newest certificate on every Session that lives.
func (n *Node) showAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.mu.Lock()
		for _, s := range l.sessions {
			if !l.stopped {
				n.launch(&l.wg, func(ctx context.Context) { l.show(ctx, s) })
			}
		}
		l.mu.Unlock()
	}
}

// show brings the Peer the newest certificate. A Peer that does not take it closes
// the Session when the one before ends, and a new Session takes over: that is worth
// a word in the log and nothing more.
func (l *peerLink) show(ctx context.Context, s live) {
	for try := 1; ; try++ {
		code, err := l.showOnce(s)
		if err == nil && code == frame.Accepted || s.Err() != nil || ctx.Err() != nil {
			return
		}
		if try == showTries || err == nil {
			l.log.Warn("peer did not take the renewed certificate", "answer", code.String(), "error", err)
			return
		}
		select {
		case <-time.After(showAgain):
		case <-s.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

func (l *peerLink) showOnce(s live) (frame.Code, error) {
	// Not as a control stream, where there is a choice: a Session that carries none is
	// the lighter for it. Those have no limit, though.
	st, err := s.OpenStream()
	if err != nil {
		st, err = s.OpenControl()
	}
	if err != nil {
		return 0, fmt.Errorf("open certificate stream: %w", err)
	}
	defer st.Reset()
	_ = st.SetDeadline(time.Now().Add(showTime))
	b := frame.Header{Kind: frame.KindCertificate}.Append(nil)
	b = frame.Chain(l.node.creds.Load().Certificate.Certificate).Append(b)
	if _, err := st.Write(b); err != nil {
		return 0, fmt.Errorf("show certificate: %w", err)
	}
	if err := st.CloseWrite(); err != nil {
		return 0, fmt.Errorf("show certificate: %w", err)
	}
	code, err := frame.ReadReply(st)
	if err != nil {
		return 0, fmt.Errorf("show certificate: %w", err)
	}
	return code, nil
}

// serveCertificate takes a newer certificate of the Peer's.
func (l *peerLink) serveCertificate(s live, st carrier.Stream) {
	_ = st.SetReadDeadline(time.Now().Add(headerTime))
	chain, err := frame.ReadChain(st)
	if err != nil {
		if errors.Is(err, frame.ErrInvalid) {
			l.node.counts.invalidFrames.Add(1)
			forward.Refuse(st, frame.FrameInvalid)
			return
		}
		st.Reset()
		return
	}
	usage := x509.ExtKeyUsageClientAuth
	if s.dialer {
		usage = x509.ExtKeyUsageServerAuth
	}
	got, err := identity.VerifyRenewed(chain, s.who, l.node.creds.Load().Roots, usage)
	if err != nil {
		l.node.counts.notAdmitted.Add(1)
		l.log.Warn("renewed certificate refused", "boot", s.who.BootID, "error", err)
		forward.Refuse(st, frame.PeerNotAdmitted)
		return
	}
	s.expiry.extend(got.Expires)
	forward.Refuse(st, frame.Accepted)
}
