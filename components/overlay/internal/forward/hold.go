package forward

import (
	"bytes"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

// maxHeld bounds the bytes of a Peer's datagrams that wait for a Session.
const maxHeld = 64 << 10

// heldDatagram waits for a Session until a time.
type heldDatagram struct {
	until time.Time
	bytes []byte
}

// carry sends an encoded datagram over the Session in use. Where one is made on demand it
// waits for that, among few others; false when it does not.
func (u *udp) carry(b []byte) bool {
	u.peer.mu.Lock()
	session, hold := u.peer.session, u.peer.rules.Hold
	kept := session == nil && hold > 0 && u.hold(b, hold)
	u.peer.mu.Unlock()
	u.peer.touch()
	if session != nil {
		session.SendDatagram(b)
		return true
	}
	if kept {
		u.peer.want()
	}
	return kept
}

// hold keeps a datagram; the Peer's lock is held, so that no Session comes into use
// meanwhile.
func (u *udp) hold(b []byte, limit time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for len(u.held) > 0 && now.After(u.held[0].until) {
		u.heldBytes -= len(u.held[0].bytes)
		u.held = u.held[1:]
		u.dropped.Add(1)
	}
	if u.closed || u.heldBytes+len(b) > maxHeld {
		return false
	}
	u.held = append(u.held, heldDatagram{now.Add(limit), bytes.Clone(b)})
	u.heldBytes += len(b)
	return true
}

// holds reports whether datagrams within their time limit wait for a Session.
func (u *udp) holds() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	// The last datagrams have the latest limit.
	return len(u.held) > 0 && time.Now().Before(u.held[len(u.held)-1].until)
}

// flush sends the waiting datagrams, except expired ones; the Peer's lock is held.
func (u *udp) flush(s carrier.Session) {
	u.mu.Lock()
	held := u.held
	u.held, u.heldBytes = nil, 0
	u.mu.Unlock()
	now := time.Now()
	for _, d := range held {
		if now.After(d.until) {
			u.dropped.Add(1)
			continue
		}
		s.SendDatagram(d.bytes)
	}
}
