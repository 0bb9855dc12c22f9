package forward

import (
	"bytes"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

// maxWaiting bounds the bytes of a Peer's datagrams that wait for a Session.
const maxWaiting = 64 << 10

// waitingDatagram waits for a Session until a time.
type waitingDatagram struct {
	until time.Time
	bytes []byte
}

// carry sends an encoded datagram over the Session in use. Where one is made on demand it
// waits for that, among few others; false when it does not.
func (u *udp) carry(b []byte) bool {
	u.peer.mu.Lock()
	session, hold := u.peer.session, u.peer.rules.DemandTime
	kept := session == nil && hold > 0 && u.enqueue(b, hold)
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

// enqueue keeps a datagram; the Peer's lock is held, so that no Session comes into use
// meanwhile.
func (u *udp) enqueue(b []byte, limit time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for len(u.waiting) > 0 && now.After(u.waiting[0].until) {
		u.waitingBytes -= len(u.waiting[0].bytes)
		u.waiting = u.waiting[1:]
		u.dropped.Add(1)
	}
	if u.closed || u.waitingBytes+len(b) > maxWaiting {
		return false
	}
	u.waiting = append(u.waiting, waitingDatagram{now.Add(limit), bytes.Clone(b)})
	u.waitingBytes += len(b)
	return true
}

// hasWaiting reports whether datagrams within their time limit wait for a Session.
func (u *udp) hasWaiting() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	// The last datagrams have the latest limit.
	return len(u.waiting) > 0 && time.Now().Before(u.waiting[len(u.waiting)-1].until)
}

// flush sends the waiting datagrams, except expired ones; the Peer's lock is held.
func (u *udp) flush(s carrier.Session) {
	u.mu.Lock()
	waiting := u.waiting
	u.waiting, u.waitingBytes = nil, 0
	u.mu.Unlock()
	now := time.Now()
	for _, d := range waiting {
		if now.After(d.until) {
			u.dropped.Add(1)
			continue
		}
		s.SendDatagram(d.bytes)
	}
}
