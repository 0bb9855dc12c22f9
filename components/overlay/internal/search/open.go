package search

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"cadre.dev/overlay/internal/ice"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/internal/underlay"
)

// Options make a [Field].
type Options struct {
	// Servers are the rendezvous, at least one; Identity is the node's identity towards
	// them.
	Servers  []mailbox.Server
	Identity func() (mailbox.Identity, bool)
	// Listen is the UDP address, which Listener opens.
	Listen   netip.AddrPort
	Listener interface {
		ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
	}
	// Allows, PublicOnly and Loopback are the Field's; Searches is the number of searches
	// that this node begins at once.
	Allows               func(link.Class) bool
	PublicOnly, Loopback bool
	Searches             int
	Log                  *slog.Logger
}

// Open opens the socket; nothing is sent before [Field.Run].
func Open(ctx context.Context, o Options) (*Field, error) {
	box, err := mailbox.New(mailbox.Config{Servers: o.Servers, Identity: o.Identity, Log: o.Log})
	if err != nil {
		return nil, fmt.Errorf("rendezvous: %w", err)
	}
	f := &Field{
		Box: box, Roots: relayRoots(o.Servers), Allows: o.Allows,
		PublicOnly: o.PublicOnly, Loopback: o.Loopback, Log: o.Log,
	}
	f.Init(o.Searches)
	if f.Socket, err = underlay.Open(ctx, underlay.Config{Listen: o.Listen, Listener: o.Listener, Log: o.Log}); err != nil {
		return nil, fmt.Errorf("open UDP socket: %w", err)
	}
	if f.ICE, err = ice.NewMux(f.Socket.STUN(), o.Log); err != nil {
		return nil, errors.Join(fmt.Errorf("share UDP socket: %w", err), f.Socket.Close())
	}
	return f, nil
}

// Close lets go of the socket.
func (f *Field) Close() error { return errors.Join(f.ICE.Close(), f.Socket.Close()) }

// relayRoots returns the roots for TURN over TLS. The mailboxes have the same roots,
// since one certificate serves both.
func relayRoots(servers []mailbox.Server) *x509.CertPool {
	var pool *x509.CertPool
	for _, r := range servers {
		if len(r.CA) == 0 {
			continue
		}
		if pool == nil {
			var err error
			if pool, err = x509.SystemCertPool(); err != nil {
				pool = x509.NewCertPool()
			}
		}
		pool.AppendCertsFromPEM(r.CA) // mailbox.New has read it
	}
	return pool
}

// Run serves the mailboxes and keeps the mapped addresses fresh until ctx ends. Run calls
// heard with each message from an authenticated sender. It calls hope when a rendezvous
// is reachable again after an outage of all: waiting searches may succeed now.
func (f *Field) Run(ctx context.Context, heard func(mailbox.Incoming), hope func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Box.Run(ctx); err != nil && ctx.Err() == nil {
			f.Log.Error("mailboxes ended", "error", err)
		}
	})
	wg.Go(func() { f.receive(ctx, heard) })
	wg.Go(func() { f.Warm(ctx) })
	wg.Go(func() { f.awaitReturns(ctx, hope) })
	wg.Wait()
}

func (f *Field) receive(ctx context.Context, heard func(mailbox.Incoming)) {
	for {
		select {
		case in := <-f.Box.Messages():
			heard(in)
		case <-ctx.Done():
			return
		}
	}
}

func (f *Field) awaitReturns(ctx context.Context, hope func()) {
	for was := true; ; {
		changed := f.Box.Changed()
		is := f.Connected()
		if is && !was {
			hope()
		}
		was = is
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
