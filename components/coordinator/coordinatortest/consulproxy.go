package coordinatortest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"cadre.dev/coordinator/internal/consulproxy"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
)

// ConsulProxyConfig configures the Consul proxy of a coordinator without its other parts. All
// fields are required.
type ConsulProxyConfig struct {
	// Consul is the address of the coordinator's own server, Token its management token.
	Consul, Token string
	// Holds reports whether a Boot holds the Slot now; each request calls it.
	Holds func(slot, boot string) bool
	Log   *slog.Logger
}

// ConsulProxy is a coordinator's proxy to a Consul server, with the usual limits. Its methods may
// be called concurrently.
type ConsulProxy struct {
	consulProxy *consulproxy.Proxy
	issuer      *tokens.Issuer
}

// NewConsulProxy returns a proxy; Run serves it.
func NewConsulProxy(cfg ConsulProxyConfig) (*ConsulProxy, error) {
	issuer, err := tokens.New(cfg.Consul, cfg.Token, tokens.TTL)
	if err != nil {
		return nil, fmt.Errorf("make a Consul proxy: %w", err)
	}
	return &ConsulProxy{issuer: issuer, consulProxy: consulproxy.New(consulproxy.Config{
		Consul: cfg.Consul, Datacenter: "dc1", Tokens: issuer, Holds: cfg.Holds, Now: time.Now, Log: cfg.Log,
	})}, nil
}

// Run serves until ctx ends.
func (d *ConsulProxy) Run(ctx context.Context) error { return d.consulProxy.Run(ctx) }

// Serve serves one connection of a Peer as package coordinator does. It owns conn.
func (d *ConsulProxy) Serve(ctx context.Context, peer overlay.Peer, conn net.Conn) {
	d.consulProxy.Serve(ctx, consulproxy.Caller{Group: peer.ID.Group, Slot: peer.ID.Slot, Boot: peer.BootID}, conn)
}

// Token issues the token of an admitted Boot's workload.
func (d *ConsulProxy) Token(ctx context.Context, spec group.Spec, slot, boot string) (secret string, err error) {
	token, err := d.issuer.Slot(ctx, tokens.Holder{Spec: spec, Slot: slot, BootID: boot})
	return token.Secret, err
}
