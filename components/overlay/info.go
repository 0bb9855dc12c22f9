package overlay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/overlay/internal/link"
)

// pathNote is what is known about the path of a Session when it is made.
type pathNote struct {
	local, remote string
	carrier       string
}

// The two carriers, as people see them.
const (
	carrierTLS  = "tls"
	carrierQUIC = "quic"
)

// pathKind translates the machine's classes.
func pathKind(c link.Class) PathKind {
	switch c {
	case link.Relay:
		return PathRelay
	case link.Gateway:
		return PathGateway
	case link.DirectUDP:
		return PathDirectUDP
	case link.DirectTCP:
		return PathDirectTCP
	case link.NoClass:
	}
	return PathNone
}

// checkPaths refuses kinds that do not exist.
func checkPaths(kinds []PathKind) error {
	for _, k := range kinds {
		if rank(k) == link.NoClass {
			return fmt.Errorf("path kind %q: want %s, %s, %s or %s", k, PathDirectTCP, PathDirectUDP, PathGateway, PathRelay)
		}
	}
	if kinds != nil && len(kinds) == 0 {
		return errors.New("no kind of path is allowed")
	}
	return nil
}

// allows tells whether a kind of path may be used.
func (n *Node) allows(c link.Class) bool {
	return n.cfg.Paths == nil || slices.Contains(n.cfg.Paths, pathKind(c))
}

// Sessions describes the Link to every Peer of the map, ordered by name.
func (n *Node) Sessions() []SessionInfo {
	links := n.allLinks()
	slices.SortFunc(links, func(a, b *peerLink) int { return strings.Compare(a.name, b.name) })
	infos := make([]SessionInfo, 0, len(links))
	for _, l := range links {
		infos = append(infos, l.info())
	}
	return infos
}

func (n *Node) allLinks() []*peerLink {
	n.mu.Lock()
	defer n.mu.Unlock()
	links := make([]*peerLink, 0, len(n.links))
	for _, l := range n.links {
		links = append(links, l)
	}
	return links
}

// PathChanges gives the last path changes of a Peer's Link, oldest first; nil for a
// Peer that the map does not name.
func (n *Node) PathChanges(id ID) []PathChange {
	n.mu.Lock()
	l := n.links[id]
	n.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.history.changes)
}

// info describes the Link.
func (l *peerLink) info() SessionInfo {
	open := l.forward.Stats().Open
	candidates, begun := l.candidates(), l.begun()
	l.mu.Lock()
	defer l.mu.Unlock()
	used, class := l.state.InUse()
	searching, _ := l.state.Finding()
	info := SessionInfo{
		Peer: l.id, State: SessionState(l.state.Phase()), Since: l.since, Streams: open,
		Path: pathKind(class), PathChanges: l.history.total, Attempts: begun, Searching: searching,
		Candidates: candidates,
	}
	if n := len(l.history.changes); n > 0 {
		info.PathReason, info.PathSince = l.history.changes[n-1].Reason, l.history.changes[n-1].At
	}
	if l.lastErr != nil {
		info.LastError = l.lastErr.Error()
	}
	for number := range l.sessions {
		if c := l.state.Class(number); number != used && c != link.NoClass {
			info.Standby = append(info.Standby, pathKind(c))
		}
	}
	slices.Sort(info.Standby)
	s, ok := l.sessions[used]
	if !ok {
		return info
	}
	st := s.Stats()
	info.BootID, info.RTT = s.who.BootID, st.RTT
	info.BytesIn, info.BytesOut = st.BytesIn, st.BytesOut
	info.PacketsSent, info.PacketsLost = st.PacketsSent, st.PacketsLost
	info.Carrier, info.Local, info.Remote = s.path.carrier, s.path.local, s.path.remote
	for _, c := range candidates {
		if c.InUse && info.Carrier == carrierQUIC {
			info.Remote = c.Remote
		}
	}
	return info
}

// noteUseLocked remembers and tells that another path is in use.
func (l *peerLink) noteUseLocked(s live) {
	_, class := l.state.InUse()
	reason := reasonFor(class, l.history.kind())
	l.noteLocked(pathKind(class), reason, s.path.remote)
}

func (l *peerLink) noteLocked(kind PathKind, reason, remote string) {
	change, changed := l.history.note(time.Now(), l.id, kind, reason)
	if !changed {
		return
	}
	l.log.Info("path changed", "path", string(change.To), "from", string(change.From), "remote", remote, "reason", reason)
	if l.node.cfg.OnPathChange != nil {
		l.node.tell(change)
	}
}

// reasonFor says why a class is used now.
func reasonFor(class link.Class, before PathKind) string {
	switch {
	case class == link.NoClass:
		return "no session is left"
	case before == PathNone:
		return "the first path that came up"
	case rank(before) > class:
		return "the " + string(before) + " path died"
	}
	return class.String() + " is preferred to " + string(before)
}

func rank(kind PathKind) link.Class {
	for c := link.Relay; c <= link.DirectTCP; c++ {
		if pathKind(c) == kind {
			return c
		}
	}
	return link.NoClass
}
