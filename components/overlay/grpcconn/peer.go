package grpcconn

import (
	"context"

	"cadre.dev/overlay"
	"google.golang.org/grpc/peer"
)

// PeerFromContext gives the authenticated Peer that a handler serves, and its
// Boot; false when the call did not come over a control connection of a Session.
func PeerFromContext(ctx context.Context) (id overlay.ID, bootID string, ok bool) {
	a, ok := AddrFromContext(ctx)
	return a.ID, a.BootID, ok
}

// AddrFromContext is PeerFromContext with everything that is known of the Peer.
func AddrFromContext(ctx context.Context) (overlay.Addr, bool) {
	p, found := peer.FromContext(ctx)
	if !found {
		return overlay.Addr{}, false
	}
	a, ok := p.Addr.(overlay.Addr)
	return a, ok
}
