package overlay

import (
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/measure"
	"cadre.dev/overlay/internal/peer"
	"cadre.dev/overlay/internal/peermap"
	"cadre.dev/overlay/internal/session"
)

var (
	// ErrInvalidID reports a name outside the grammar of [ParseID].
	ErrInvalidID = identity.ErrInvalidID
	// ErrNoCredentials reports a try before [Node.SetCredentials].
	ErrNoCredentials = session.ErrNoCredentials
	// ErrPeerNotAdmitted reports a genuine certificate with a Slot and Boot that the peer
	// map does not name (PEER_NOT_ADMITTED).
	ErrPeerNotAdmitted = peermap.ErrNotAdmitted
	// ErrUnknownPeer reports a Peer that the map does not name.
	ErrUnknownPeer = peer.ErrGone
	// ErrNoSession reports a Link that has no Session in use.
	ErrNoSession = measure.ErrNoSession
	// ErrRefused reports a Peer that turned a stream down; its text has the Peer's reason,
	// PORT_FORBIDDEN where it does not serve the port.
	ErrRefused = forward.ErrRefused
	// ErrBenchForbidden reports a Peer that lets this node measure nothing.
	ErrBenchForbidden = measure.ErrBenchForbidden
	// ErrBenchBusy reports that either node takes part in another bench.
	ErrBenchBusy = measure.ErrBenchBusy
)
