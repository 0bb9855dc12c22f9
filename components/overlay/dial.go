package overlay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
)

// errSlowDial ends a dial that does not get on.
var errSlowDial = errors.New("dial took too long")

// dial makes a Session with the Peer id at an instance, through the gateway. It is
// bounded by ctx.
func (n *Node) dial(ctx context.Context, id ID, instance, bootID string) (live, error) {
	creds, err := n.credentials(ctx)
	if err != nil {
		return live{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, n.limits.dialTime, errSlowDial)
	defer cancel()
	name := n.cfg.Gateway.Name(instance)
	conn, err := dialGateway(ctx, n.cfg.Gateway, name)
	if err != nil {
		return live{}, err
	}
	return n.client(ctx, conn, creds, name, id, bootID, link.Gateway)
}

// client makes the dialer's side of a Session on a byte stream, and closes it when
// that fails.
func (n *Node) client(ctx context.Context, conn net.Conn, creds *Credentials, name string, id ID, bootID string, class link.Class) (live, error) {
	tc, err := handshake(ctx, conn, identity.OverlayClient(creds.Certificate, creds.Roots, name, id, bootID))
	if err != nil {
		return live{}, fmt.Errorf("%s: %w", id, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	who, err := n.greeted(tc, tc.ConnectionState(), creds, id)
	if err != nil {
		conn.Close()
		return live{}, err
	}
	s, err := carrier.Client(ctx, tc, n.log.With("peer", id.Slot))
	if err != nil {
		return live{}, fmt.Errorf("session with %s: %w", id, err)
	}
	return live{
		Session: s, who: who, number: n.sessions.Add(1), dialer: true, class: class,
		path: pathNote{carrier: carrierTLS, local: conn.LocalAddr().String(), remote: conn.RemoteAddr().String()},
	}, nil
}

// greeted waits until the far side has looked at our certificate: the handshake is
// over before it has.
func (n *Node) greeted(r io.Reader, state tls.ConnectionState, creds *Credentials, id ID) (identity.Verified, error) {
	code, err := frame.ReadGreeting(r)
	if err == nil && code != frame.Accepted {
		err = fmt.Errorf("%w: peer answered %s", ErrPeerNotAdmitted, code)
	}
	if err != nil {
		return identity.Verified{}, fmt.Errorf("greeting of %s: %w", id, err)
	}
	return identity.Verify(state, creds.Roots, id.Cluster, x509.ExtKeyUsageServerAuth)
}

// dialGateway reaches a routed name.
func dialGateway(ctx context.Context, gw Gateway, name string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", gw.target(name))
	if err != nil {
		return nil, fmt.Errorf("dial gateway: %w", err)
	}
	carrier.Tune(conn)
	return conn, nil
}

// handshake makes TLS on a connection, and closes it when that fails.
func handshake(ctx context.Context, conn net.Conn, cfg *tls.Config) (*tls.Conn, error) {
	tc := tls.Client(carrier.Metered(conn), cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("handshake: %w", err)
	}
	return tc, nil
}

// dialTLS reaches a routed name and makes TLS with it.
func dialTLS(ctx context.Context, gw Gateway, name string, cfg *tls.Config) (*tls.Conn, error) {
	conn, err := dialGateway(ctx, gw, name)
	if err != nil {
		return nil, err
	}
	tc, err := handshake(ctx, conn, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return tc, nil
}
