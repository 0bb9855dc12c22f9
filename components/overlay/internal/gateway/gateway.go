// Package gateway reaches machines through the TLS pass-through in front of them, which
// routes by server name.
package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"cadre.dev/overlay/internal/carrier"
)

// SessionPort is the port that every node's Session listener has in its CVM.
const SessionPort = 7443

// Gateway is the TLS pass-through in front of every machine.
type Gateway struct {
	// Domain is the base domain of the names that the gateway routes by.
	Domain string
	// Address is the host:port to dial. "" means: resolve the routed name and
	// dial its port 443.
	Address string
}

// Name gives the server name by which the gateway routes to the Session
// listener of an instance, or of some instance of an app.
func (g Gateway) Name(instanceOrAppID string) string {
	return fmt.Sprintf("%s-%ds.%s", instanceOrAppID, SessionPort, g.Domain)
}

// target gives the address to dial for a routed name.
func (g Gateway) target(name string) string {
	if g.Address != "" {
		return g.Address
	}
	return net.JoinHostPort(name, "443")
}

// Dial reaches a routed name.
func (g Gateway) Dial(ctx context.Context, name string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", g.target(name))
	if err != nil {
		return nil, fmt.Errorf("dial gateway: %w", err)
	}
	carrier.Tune(conn)
	return conn, nil
}

// DialTLS reaches a routed name and makes TLS with it.
func (g Gateway) DialTLS(ctx context.Context, name string, cfg *tls.Config) (*tls.Conn, error) {
	conn, err := g.Dial(ctx, name)
	if err != nil {
		return nil, err
	}
	tc, err := Handshake(ctx, conn, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return tc, nil
}

// Handshake makes TLS on a connection as its client, and closes it when that fails.
func Handshake(ctx context.Context, conn net.Conn, cfg *tls.Config) (*tls.Conn, error) {
	tc := tls.Client(carrier.Metered(conn), cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("handshake: %w", err)
	}
	return tc, nil
}
