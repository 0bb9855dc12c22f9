package overlay

import (
	"context"
	"errors"
	"fmt"

	"cadre.dev/overlay/internal/identity"
)

// ErrPeerNotAdmitted reports a genuine certificate whose Slot and Boot the peer
// map does not name (PEER_NOT_ADMITTED).
var ErrPeerNotAdmitted = errors.New("peer is not admitted")

// authorize checks a Boot against the peer map. A Boot admitted a moment ago
// often dials before the map that names it arrives here: rather than send it
// away to back off, a few such connections wait for the next map.
func (n *Node) authorize(ctx context.Context, who identity.Verified) error {
	ok, changed := n.admits(who)
	if ok {
		return nil
	}
	refusal := fmt.Errorf("%w: boot %.12s of %s", ErrPeerNotAdmitted, who.BootID, who.ID)
	select {
	case n.parked <- struct{}{}:
		defer func() { <-n.parked }()
	default:
		return refusal
	}
	ctx, cancel := context.WithTimeout(ctx, n.limits.parkTime)
	defer cancel()
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return refusal
		}
		if ok, changed = n.admits(who); ok {
			return nil
		}
	}
}

// admits tells whether the map names who, and when to ask again.
func (n *Node) admits(who identity.Verified) (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, known := n.peers[who.ID]
	return known && n.facts(p).Admits(who.BootID), n.changed
}
