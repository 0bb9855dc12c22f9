package session

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/counters"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/gateway"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/peermap"
)

var (
	// ErrNoCredentials reports a try before [Maker.SetCredentials].
	ErrNoCredentials = errors.New("node has no credentials yet")
	// errSlowDial ends a dial that does not get on, errSlowHandshake a connection.
	errSlowDial      = errors.New("dial took too long")
	errSlowHandshake = errors.New("handshake took too long")
)

// Credentials are this node's own certificate and the roots that it trusts.
type Credentials struct {
	// Certificate is the node's SVID with its private key.
	Certificate tls.Certificate
	// Roots is the cluster CA.
	Roots *x509.CertPool
}

// Config makes a [Maker].
type Config struct {
	Self    identity.ID
	Gateway gateway.Gateway
	// Admission permits first contacts, too.
	Admission bool
	// DialTime bounds a dial, HandshakeTime bounds the handshake of an accepted connection.
	DialTime, HandshakeTime time.Duration
	// Authorize reports whether the peer map names a caller. It may wait for a newer map.
	Authorize func(context.Context, identity.Verified) error
	// Deliver receives each Session that a Peer opened, and closes a Session that has no
	// taker.
	Deliver  func(*Session)
	Counters *counters.Counters
	Log      *slog.Logger
}

// Maker makes the Sessions of one node. Make it with [NewMaker]; all methods may be called
// concurrently.
type Maker struct {
	cfg     Config
	numbers atomic.Uint64
	creds   atomic.Pointer[Credentials]
	renewed atomic.Int64  // Unix nanoseconds of the last SetCredentials but the first; 0: none
	have    chan struct{} // closed by the first SetCredentials
	once    sync.Once
}

// NewMaker makes no Session before it has credentials.
func NewMaker(cfg Config) *Maker { return &Maker{cfg: cfg, have: make(chan struct{})} }

// SetCredentials replaces the node's credentials, for Sessions that are made from now on.
func (m *Maker) SetCredentials(c Credentials) {
	if m.creds.Swap(&c) != nil {
		m.renewed.Store(time.Now().UnixNano())
	}
	m.once.Do(func() { close(m.have) })
}

// Outdated reports that the Peer may have seen older credentials than the newest: they were
// renewed while the Session was made. For a Session that a Peer opened, the shown
// credentials are unknown; its making began at most two handshake bounds ago.
func (m *Maker) Outdated(s *Session) bool {
	if s.shown != nil {
		return s.shown != m.creds.Load()
	}
	at := m.renewed.Load()
	return at != 0 && time.Since(time.Unix(0, at)) < 2*m.cfg.HandshakeTime
}

// Credentials are the newest ones, nil before the first.
func (m *Maker) Credentials() *Credentials { return m.creds.Load() }

// Made is how many Sessions there have been.
func (m *Maker) Made() uint64 { return m.numbers.Load() }

// credentials waits for the first ones.
func (m *Maker) credentials(ctx context.Context) (*Credentials, error) {
	select {
	case <-m.have:
		return m.creds.Load(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNoCredentials, context.Cause(ctx))
	}
}

func (m *Maker) logOf(id identity.ID) *slog.Logger { return m.cfg.Log.With("peer", id.Slot) }

// tagLabel is the exporter label for tags.
const tagLabel = "EXPORTER-cadre-session-tag"

// finish numbers a Session, and tags it.
func (m *Maker) finish(s *Session, state tls.ConnectionState) (*Session, error) {
	tag, err := state.ExportKeyingMaterial(tagLabel, nil, len(s.Tag))
	if err != nil {
		s.Close(err)
		return nil, fmt.Errorf("name session with %s: %w", s.Who.ID, err)
	}
	copy(s.Tag[:], tag)
	s.Number = m.numbers.Add(1)
	s.Expiry = &Expiry{end: func() { s.Close(errExpired) }}
	return s, nil
}

// Target is whom a dial is for: a Peer, as Boot unless that is "".
type Target struct {
	ID   identity.ID
	Boot string
}

// Dial makes a Session with a Peer at an instance, through the gateway.
func (m *Maker) Dial(ctx context.Context, to Target, instance string) (*Session, error) {
	creds, err := m.credentials(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.cfg.DialTime, errSlowDial)
	defer cancel()
	name := m.cfg.Gateway.Name(instance)
	conn, err := m.cfg.Gateway.Dial(ctx, name)
	if err != nil {
		return nil, err
	}
	return m.client(ctx, conn, creds, name, to, link.Gateway)
}

// DialOver makes a Session as the dialing side on a stream to the Peer, and closes that
// when it fails.
func (m *Maker) DialOver(ctx context.Context, conn net.Conn, to Target) (*Session, error) {
	creds, err := m.credentials(ctx)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return m.client(ctx, conn, creds, "", to, link.DirectTCP)
}

// client makes the dialer's side of a Session on a byte stream, and closes it when
// that fails.
func (m *Maker) client(ctx context.Context, conn net.Conn, creds *Credentials, name string, to Target, class link.Class) (*Session, error) {
	tc, err := gateway.Handshake(ctx, conn, identity.OverlayClient(creds.Certificate, creds.Roots, name, to.ID, to.Boot))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.ID, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	who, err := greeted(tc, tc.ConnectionState(), creds, to.ID)
	if err != nil {
		conn.Close()
		return nil, err
	}
	s, err := carrier.Client(ctx, tc, m.logOf(to.ID))
	if err != nil {
		return nil, fmt.Errorf("session with %s: %w", to.ID, err)
	}
	return m.finish(&Session{Session: s, Who: who, Dialer: true, Class: class, Path: pathOf(conn), shown: creds}, tc.ConnectionState())
}

// greeted waits until the far side has looked at our certificate: the handshake is
// over before it has.
func greeted(r io.Reader, state tls.ConnectionState, creds *Credentials, id identity.ID) (identity.Verified, error) {
	code, err := frame.ReadGreeting(r)
	if err == nil && code != frame.Accepted {
		err = fmt.Errorf("%w: peer answered %s", peermap.ErrNotAdmitted, code)
	}
	if err != nil {
		return identity.Verified{}, fmt.Errorf("greeting of %s: %w", id, err)
	}
	return identity.Verify(state, creds.Roots, id.Cluster, x509.ExtKeyUsageServerAuth)
}

func pathOf(conn net.Conn) Path {
	return Path{Carrier: TLS, Local: conn.LocalAddr().String(), Remote: conn.RemoteAddr().String()}
}
