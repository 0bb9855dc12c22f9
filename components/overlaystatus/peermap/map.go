package peermap

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Map has the Peers that the members of one group see, at one version. It is read-only,
// and safe for concurrent use: a Map that follows it shares the entries that did not
// change.
type Map struct {
	// Version is greater than that of every Map before.
	Version uint64
	// peers are all, sorted by Slot.
	peers []*controlv1.Peer
}

// New makes the Map of peers, each Slot at most once, which it sorts and keeps. It
// returns before itself if that Map is equal; a nil before stands for no Map.
func New(peers []*controlv1.Peer, version uint64, before *Map) *Map {
	slices.SortFunc(peers, func(a, b *controlv1.Peer) int { return cmp.Compare(a.GetSlot(), b.GetSlot()) })
	if before == nil {
		return &Map{Version: version, peers: peers}
	}
	same := len(before.peers) == len(peers)
	old := before.peers
	for i, p := range peers {
		for len(old) > 0 && old[0].GetSlot() < p.GetSlot() {
			old = old[1:]
		}
		if len(old) > 0 && proto.Equal(old[0], p) {
			peers[i] = old[0]
		} else {
			same = false
		}
	}
	if same {
		return before
	}
	return &Map{Version: version, peers: peers}
}

// Whole is the Map as the member of self has it: all but itself.
func (m *Map) Whole(self string) []*controlv1.Peer {
	out := make([]*controlv1.Peer, 0, len(m.peers))
	for _, p := range m.peers {
		if p.GetSlot() != self {
			out = append(out, p)
		}
	}
	return out
}

// Answer is the coordinator's answer to the member of self, which has before: an earlier
// Map of the same group, or m itself. A nil before stands for no map, or for an unknown
// one.
func (m *Map) Answer(before *Map, self string) *controlv1.GetPeersResponse {
	out := &controlv1.GetPeersResponse{Version: m.Version}
	if before == nil || before.Version == 0 {
		out.Peers = m.Whole(self)
		return out
	}
	out.Base = before.Version
	if before != m {
		out.Peers, out.Removed = m.since(before, self)
	}
	return out
}

func (m *Map) since(before *Map, self string) (changed []*controlv1.Peer, removed []string) {
	old, now := before.peers, m.peers
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(old) > 0 && old[0].GetSlot() < now[0].GetSlot():
			if slot := old[0].GetSlot(); slot != self {
				removed = append(removed, slot)
			}
			old = old[1:]
		case len(old) == 0 || now[0].GetSlot() < old[0].GetSlot():
			if now[0].GetSlot() != self {
				changed = append(changed, now[0])
			}
			now = now[1:]
		default:
			if old[0] != now[0] && now[0].GetSlot() != self {
				changed = append(changed, now[0])
			}
			old, now = old[1:], now[1:]
		}
	}
	return changed, removed
}
