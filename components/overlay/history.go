package overlay

import (
	"context"
	"time"
)

// PathKind tells how a Session travels.
type PathKind string

const (
	// PathNone: there is no Session.
	PathNone PathKind = "none"
	// PathDirectTCP is a byte stream between the two machines.
	PathDirectTCP PathKind = "direct-tcp"
	// PathDirectUDP is datagrams between the two machines.
	PathDirectUDP PathKind = "direct-udp"
	// PathGateway is a byte stream through the TLS pass-through gateway.
	PathGateway PathKind = "gateway"
	// PathRelay is datagrams through a TURN server.
	PathRelay PathKind = "relay"
)

// PathChange is one change of the path that a Link uses.
type PathChange struct {
	At       time.Time
	Peer     ID
	From, To PathKind
	// Reason is why, for people.
	Reason string
}

// historyLen is how many changes a Link remembers.
const historyLen = 16

// history is the last path changes of a Link, oldest first.
type history struct {
	changes []PathChange
	total   uint64
}

// kind is the path in use.
func (h *history) kind() PathKind {
	if len(h.changes) == 0 {
		return PathNone
	}
	return h.changes[len(h.changes)-1].To
}

// note adds a change; it tells whether there was one.
func (h *history) note(at time.Time, peer ID, to PathKind, reason string) (PathChange, bool) {
	from := h.kind()
	if from == to {
		return PathChange{}, false
	}
	c := PathChange{At: at, Peer: peer, From: from, To: to, Reason: reason}
	if len(h.changes) == historyLen {
		h.changes = append(h.changes[:0:0], h.changes[1:]...)
	}
	h.changes = append(h.changes, c)
	h.total++
	return c, true
}

// tell queues a change for OnPathChange; when nobody takes them, old ones go.
func (n *Node) tell(c PathChange) {
	for {
		select {
		case n.changes <- c:
			return
		default:
		}
		select {
		case <-n.changes:
		default:
		}
	}
}

// tellAll runs OnPathChange until ctx ends.
func (n *Node) tellAll(ctx context.Context) {
	for {
		select {
		case c := <-n.changes:
			n.cfg.OnPathChange(c)
		case <-ctx.Done():
			return
		}
	}
}
