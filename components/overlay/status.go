package overlay

import (
	"slices"

	"cadre.dev/overlay/internal/peer"
)

// Sessions describes the Link to every Peer of the map, ordered by name.
func (n *Node) Sessions() []SessionInfo {
	peers := n.sorted()
	infos := make([]SessionInfo, 0, len(peers))
	for _, p := range peers {
		infos = append(infos, p.Info())
	}
	return infos
}

func (n *Node) sorted() []*peer.Peer {
	peers := n.all()
	slices.SortFunc(peers, peer.Compare)
	return peers
}

// PathChanges gives the last path changes of a Peer's Link, oldest first; nil for a
// Peer that the map does not name.
func (n *Node) PathChanges(id ID) []PathChange {
	p, err := n.peer(id)
	if err != nil {
		return nil
	}
	return slices.Clone(p.View().Changes)
}

// Stats counts the events of a node since it was made.
type Stats struct {
	// FailedHandshakes ended before the far side showed a usable certificate.
	FailedHandshakes uint64
	// NotAdmitted showed a genuine certificate that the peer map does not name.
	NotAdmitted uint64
	// Overloaded found no free place for a handshake or a first contact.
	Overloaded uint64
	// Admissions is the number of first contacts served.
	Admissions uint64
	// InvalidFrames and Forbidden count streams of no known or allowed kind,
	// LinkLimit those above a Peer's number.
	InvalidFrames, Forbidden, LinkLimit uint64
	// Peers is ordered by name and covers the Peers of the present map.
	Peers []PeerStats
}

// Stats may be called at any time.
func (n *Node) Stats() Stats {
	t := &n.counters
	st := Stats{
		FailedHandshakes: t.FailedHandshakes.Load(), NotAdmitted: t.NotAdmitted.Load(),
		Overloaded: t.Overloaded.Load(), Admissions: t.Admissions.Load(),
		InvalidFrames: t.InvalidFrames.Load(), Forbidden: t.Forbidden.Load(), LinkLimit: t.LinkLimit.Load(),
	}
	for _, p := range n.sorted() {
		st.Peers = append(st.Peers, p.Stats())
	}
	return st
}
