package peermap

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Limit bounds the Peers of one member: more do not fit the message.
const Limit = 16384

// Known is the map that one coordinator sent to a member on one control session. The zero
// Known is empty. It is not safe for concurrent use.
type Known struct {
	version uint64
	peers   map[string]*controlv1.Peer
}

// Version is the value of GetPeersRequest.known_version; 0: there is no map.
func (h *Known) Version() uint64 { return h.version }

// Apply applies an answer. It reports whether the map has changed. After an error the map
// is empty, so that the next answer is a whole map: an answer that cannot be applied must
// not be kept in part.
func (h *Known) Apply(r *controlv1.GetPeersResponse) (changed bool, err error) {
	defer func() {
		if err != nil {
			*h = Known{}
		}
	}()
	switch {
	case r.GetBase() == 0:
		*h = Known{version: r.GetVersion(), peers: make(map[string]*controlv1.Peer, len(r.GetPeers()))}
	case r.GetBase() != h.version:
		return false, fmt.Errorf("peer map %d is a change of map %d, the present map is %d", r.GetVersion(), r.GetBase(), h.version)
	case r.GetVersion() == h.version:
		return false, nil
	case r.GetVersion() < h.version:
		return false, fmt.Errorf("peer map %d is a change of map %d, which is newer", r.GetVersion(), h.version)
	}
	h.version = r.GetVersion()
	for _, slot := range r.GetRemoved() {
		if _, known := h.peers[slot]; !known {
			return false, fmt.Errorf("peer map %d removes %s, which is in no map before", r.GetVersion(), slot)
		}
		delete(h.peers, slot)
	}
	for _, p := range r.GetPeers() {
		h.peers[p.GetSlot()] = p
	}
	if len(h.peers) > Limit {
		return false, fmt.Errorf("peer map %d has %d entries, at most %d are taken", r.GetVersion(), len(h.peers), Limit)
	}
	return true, nil
}

// Peers are all that is held, sorted by Slot.
func (h *Known) Peers() []*controlv1.Peer {
	return slices.SortedFunc(maps.Values(h.peers), func(a, b *controlv1.Peer) int { return cmp.Compare(a.GetSlot(), b.GetSlot()) })
}
