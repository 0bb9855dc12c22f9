package overlay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
)

// dial makes a Session with the Peer id at an instance. It is bounded by ctx.
func (n *Node) dial(ctx context.Context, id ID, instance, bootID string) (live, error) {
	creds, err := n.credentials(ctx)
	if err != nil {
		return live{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, n.limits.dialTime, errors.New("dial took too long"))
	defer cancel()
	name := n.cfg.Gateway.Name(instance)
	tc, err := dialTLS(ctx, n.cfg.Gateway, name,
		identity.OverlayClient(creds.Certificate, creds.Roots, name, id, bootID))
	if err != nil {
		return live{}, err
	}
	stop := context.AfterFunc(ctx, func() { tc.NetConn().Close() })
	defer stop()
	// The handshake is over before the far side has looked at our certificate.
	code, err := frame.ReadGreeting(tc)
	if err == nil && code != frame.Accepted {
		err = fmt.Errorf("%w: peer answered %s", ErrPeerNotAdmitted, code)
	}
	if err != nil {
		tc.NetConn().Close()
		return live{}, fmt.Errorf("greeting of %s: %w", id, err)
	}
	who, err := identity.Verify(tc.ConnectionState(), creds.Roots, id.Cluster, x509.ExtKeyUsageServerAuth)
	if err != nil {
		tc.NetConn().Close()
		return live{}, err
	}
	s, err := carrier.Client(ctx, tc, n.log.With("peer", id.Slot))
	if err != nil {
		return live{}, fmt.Errorf("session with %s: %w", id, err)
	}
	return live{Session: s, who: who, number: n.sessions.Add(1), dialer: true}, nil
}

// dialTLS reaches a routed name through the gateway.
func dialTLS(ctx context.Context, gw Gateway, name string, cfg *tls.Config) (*tls.Conn, error) {
	target := gw.target(name)
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, fmt.Errorf("dial gateway: %w", err)
	}
	carrier.Tune(conn)
	tc := tls.Client(carrier.Metered(conn), cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("handshake with %s: %w", name, err)
	}
	return tc, nil
}
