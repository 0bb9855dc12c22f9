package coordinatortest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"cadre.dev/coordinator/internal/door"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
)

// DoorConfig is one of a coordinator without anything else of it. All fields are required.
type DoorConfig struct {
	// Consul is the address of the coordinator's own server, Token its management token.
	Consul, Token string
	// Holds tells whether a Boot is the Slot now; each request asks.
	Holds func(slot, boot string) bool
	Log   *slog.Logger
}

// Door is a coordinator's, before a Consul server, with the usual limits. Its methods may be
// called concurrently.
type Door struct {
	door   *door.Door
	issuer *tokens.Issuer
}

// NewDoor makes one that serves nobody before Run.
func NewDoor(cfg DoorConfig) (*Door, error) {
	issuer, err := tokens.New(cfg.Consul, cfg.Token, tokens.TTL)
	if err != nil {
		return nil, fmt.Errorf("make a door: %w", err)
	}
	return &Door{issuer: issuer, door: door.New(door.Config{
		Consul: cfg.Consul, Datacenter: "dc1", Tokens: issuer, Holds: cfg.Holds, Now: time.Now, Log: cfg.Log,
	})}, nil
}

// Run serves until ctx ends.
func (d *Door) Run(ctx context.Context) error { return d.door.Run(ctx) }

// Serve serves one connection of a Peer as package coordinator does. It owns conn.
func (d *Door) Serve(ctx context.Context, peer overlay.Peer, conn net.Conn) {
	d.door.Serve(ctx, door.Caller{Group: peer.ID.Group, Slot: peer.ID.Slot, Boot: peer.BootID}, conn)
}

// Token is what the workload of an admitted Boot gets.
func (d *Door) Token(ctx context.Context, spec group.Spec, slot, boot string) (secret string, err error) {
	token, err := d.issuer.Slot(ctx, tokens.Holder{Spec: spec, Slot: slot, BootID: boot})
	return token.Secret, err
}
