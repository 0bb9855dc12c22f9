package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/hashicorp/yamux"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/gateway"
	"cadre.dev/overlay/internal/identity"
)

// Conn is the one stream of a first contact with a coordinator.
type Conn struct {
	net.Conn
	mux   *yamux.Session
	state tls.ConnectionState
}

// State describes the TLS connection beneath: the coordinator's certificate,
// which nothing vouches for yet, and the exporter that its evidence must name.
func (c *Conn) State() tls.ConnectionState { return c.state }

// Close ends the first contact.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	return errors.Join(err, c.mux.Close())
}

// Dial opens a first contact with the coordinator behind serverName, see
// [gateway.Gateway.Name], showing boot, a certificate signed by its own key. ctx
// bounds the set-up alone. The far side is unknown until its evidence has been
// verified against State.
func Dial(ctx context.Context, gw gateway.Gateway, serverName string, boot tls.Certificate) (*Conn, error) {
	conn, err := gw.DialTLS(ctx, serverName, identity.AdmissionClient(boot, serverName))
	if err != nil {
		return nil, fmt.Errorf("first contact: %w", err)
	}
	mux, err := yamux.Client(conn, Mux(slog.New(slog.DiscardHandler)))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("first contact: %w", err)
	}
	st, err := mux.OpenStream()
	if err != nil {
		mux.Close()
		return nil, fmt.Errorf("first contact: %w", err)
	}
	return &Conn{Conn: st, mux: mux, state: conn.ConnectionState()}, nil
}

// Mux bounds the memory that an unauthenticated caller can occupy.
func Mux(log *slog.Logger) *yamux.Config {
	cfg := carrier.MuxConfig(log)
	cfg.AcceptBacklog = 1
	cfg.MaxStreamWindowSize = 256 << 10
	return cfg
}
