package session

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
)

// ServerTLS is how connections are taken: it chooses by ALPN, with the credentials of the
// moment.
func (m *Maker) ServerTLS() *tls.Config {
	return identity.ServerConfig(func(alpn string) (*tls.Config, error) {
		creds := m.creds.Load()
		if creds == nil {
			return nil, ErrNoCredentials
		}
		switch {
		case alpn == identity.ALPNOverlay:
			return identity.OverlayServer(creds.Certificate, creds.Roots, m.cfg.Self.Cluster), nil
		case alpn == identity.ALPNAdmission && m.cfg.Admission:
			return identity.AdmissionServer(creds.Certificate), nil
		}
		return nil, fmt.Errorf("%w: %q", identity.ErrALPN, alpn)
	})
}

// Handshake does the TLS handshake on an accepted connection, within HandshakeTime, and
// closes the connection on failure. hs bounds the following steps until the caller calls
// stop; call give in any case.
func (m *Maker) Handshake(ctx context.Context, conn net.Conn) (tc *tls.Conn, hs context.Context, stop func() bool, give context.CancelFunc, err error) {
	hs, give = context.WithTimeoutCause(ctx, m.cfg.HandshakeTime, errSlowHandshake)
	stop = context.AfterFunc(hs, func() { conn.Close() })
	tc = tls.Server(carrier.Metered(conn), m.ServerTLS())
	if err := tc.HandshakeContext(hs); err != nil {
		stop()
		give()
		conn.Close()
		m.cfg.Counters.FailedHandshakes.Add(1)
		return nil, nil, nil, nil, fmt.Errorf("handshake: %w", err)
	}
	return tc, hs, stop, give, nil
}

// Welcome makes a Session of a connection that a Peer opened on a direct stream, and
// delivers it.
func (m *Maker) Welcome(ctx context.Context, conn net.Conn) (*Session, error) {
	tc, hs, stop, give, err := m.Handshake(ctx, conn)
	if err != nil {
		return nil, err
	}
	defer give()
	return m.Join(hs, tc, stop, link.DirectTCP)
}

// Join turns a connection with a genuine certificate into a Session and delivers it, if
// the peer map names its Boot. Otherwise Join closes the connection. stop is called once
// the Session outlives hs.
func (m *Maker) Join(hs context.Context, tc *tls.Conn, stop func() bool, class link.Class) (*Session, error) {
	who, err := m.verify(tc.ConnectionState())
	if err == nil {
		err = m.greet(hs, tc, who)
	}
	if err != nil {
		tc.Close()
		return nil, err
	}
	s, err := carrier.Server(hs, tc, m.logOf(who.ID))
	if err != nil {
		tc.Close()
		return nil, fmt.Errorf("session with %s: %w", who.ID, err)
	}
	if !stop() {
		s.Close(context.Cause(hs))
	}
	joined, err := m.finish(&Session{Session: s, Who: who, Class: class, Path: pathOf(tc)}, tc.ConnectionState())
	if err != nil {
		return nil, err
	}
	m.cfg.Deliver(joined)
	return joined, nil
}

// verify returns the identity of the side that opened a connection.
func (m *Maker) verify(state tls.ConnectionState) (identity.Verified, error) {
	if state.NegotiatedProtocol != identity.ALPNOverlay {
		return identity.Verified{}, fmt.Errorf("%w: %q", identity.ErrALPN, state.NegotiatedProtocol)
	}
	return identity.Verify(state, m.creds.Load().Roots, m.cfg.Self.Cluster, x509.ExtKeyUsageClientAuth)
}

// greet reports to the far side whether the peer map names it.
func (m *Maker) greet(ctx context.Context, w io.Writer, who identity.Verified) error {
	if err := m.cfg.Authorize(ctx, who); err != nil {
		m.cfg.Counters.NotAdmitted.Add(1)
		_, _ = w.Write(frame.AppendGreeting(nil, frame.PeerNotAdmitted))
		return err
	}
	if _, err := w.Write(frame.AppendGreeting(nil, frame.Accepted)); err != nil {
		return fmt.Errorf("greet %s: %w", who.ID, err)
	}
	return nil
}
