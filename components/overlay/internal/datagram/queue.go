package datagram

import (
	"sync"
	"sync/atomic"

	"cadre.dev/overlay/internal/frame"
)

// queueBytes bounds the datagrams that wait for the connection. Gossip that is
// older than this much traffic is worth less than what displaces it.
const queueBytes = 256 << 10

// queue holds encoded datagrams, oldest first, each with its length before it.
// When it is full the oldest go.
type queue struct {
	// ready holds one token while buf may be non-empty.
	ready   chan struct{}
	dropped atomic.Uint64

	mu   sync.Mutex
	buf  []byte // guarded by mu
	head int    // where the oldest begins; guarded by mu
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// push never waits.
func (q *queue) push(datagram []byte) {
	if len(datagram) > frame.MaxDatagram || len(datagram) < frame.MinDatagram {
		q.dropped.Add(1)
		return
	}
	q.mu.Lock()
	for len(q.buf)-q.head+frame.PrefixedSize(len(datagram)) > queueBytes {
		q.head += frame.PrefixedLen(q.buf[q.head:])
		q.dropped.Add(1)
	}
	if q.head > queueBytes {
		q.buf = append(q.buf[:0], q.buf[q.head:]...)
		q.head = 0
	}
	q.buf = frame.AppendPrefixed(q.buf, datagram)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// pop takes the oldest, with its length before it, into dst's memory; false
// when there is none.
func (q *queue) pop(dst []byte) ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.buf) {
		return dst, false
	}
	n := frame.PrefixedLen(q.buf[q.head:])
	dst = append(dst[:0], q.buf[q.head:q.head+n]...)
	q.head += n
	if q.head == len(q.buf) {
		q.head = 0
		if q.buf = q.buf[:0]; cap(q.buf) > idleBytes {
			q.buf = nil
		}
	}
	return dst, true
}

// idleBytes is what an empty queue may keep.
const idleBytes = 4 << 10
