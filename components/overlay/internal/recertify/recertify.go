// Package recertify shows renewed certificates on Sessions that live. Certificates live
// for an hour and connections for days. A Session does not outlast the certificate that the
// Peer showed last: each side shows its newer ones, and a Peer that is refused one loses
// its Sessions in time.
package recertify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/counters"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/session"
)

const (
	// showTime bounds one showing; showAgain is the pause before the next try.
	showTime  = 10 * time.Second
	showAgain = 15 * time.Second
	showTries = 4
	// takeTime is how long the other side may take to show one.
	takeTime = 10 * time.Second
)

// Exchanger sends this node's new certificates and accepts those of its Peers. Constant.
type Exchanger struct {
	// Credentials are the newest ones.
	Credentials func() *session.Credentials
	Counters    *counters.Counters
}

// Show sends the Peer the newest certificate. A Peer that refuses it closes the Session
// when the old certificate ends, and a new Session takes over: Show only logs that.
func (d *Exchanger) Show(ctx context.Context, s *session.Session, log *slog.Logger) {
	for try := 1; ; try++ {
		code, err := d.showOnce(s)
		if err == nil && code == frame.Accepted || s.Err() != nil || ctx.Err() != nil {
			return
		}
		if try == showTries || err == nil {
			log.Warn("peer refused the renewed certificate", "answer", code.String(), "error", err)
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

func (d *Exchanger) showOnce(s *session.Session) (frame.Code, error) {
	// An ordinary stream where there is a choice: a Session without control streams needs
	// no multiplexer. Control streams have no limit, though.
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
	b = frame.Chain(d.Credentials().Certificate.Certificate).Append(b)
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

// Take takes a newer certificate of the Peer's on a stream that it opened.
func (d *Exchanger) Take(s *session.Session, st carrier.Stream, log *slog.Logger) {
	_ = st.SetReadDeadline(time.Now().Add(takeTime))
	chain, err := frame.ReadChain(st)
	if err != nil {
		if errors.Is(err, frame.ErrInvalid) {
			d.Counters.InvalidFrames.Add(1)
			forward.Refuse(st, frame.FrameInvalid)
			return
		}
		st.Reset()
		return
	}
	usage := x509.ExtKeyUsageClientAuth
	if s.Dialer {
		usage = x509.ExtKeyUsageServerAuth
	}
	got, err := identity.VerifyRenewed(chain, s.Who, d.Credentials().Roots, usage)
	if err != nil {
		d.Counters.NotAdmitted.Add(1)
		log.Warn("renewed certificate refused", "boot", s.Who.BootID, "error", err)
		forward.Refuse(st, frame.PeerNotAdmitted)
		return
	}
	s.Expiry.Extend(got.Expires)
	forward.Refuse(st, frame.Accepted)
}
