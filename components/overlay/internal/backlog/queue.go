package backlog

import (
	"sync"
	"sync/atomic"

	"cadre.dev/overlay/internal/frame"
)

// Limit bounds the bytes of the datagrams that wait for the connection. Gossip that is
// older than this much traffic is worth less than the newer data that displaces it.
const Limit = 256 << 10

// Queue holds encoded datagrams, oldest first, each with its length before it. When
// it is full the oldest go. Make it with [New]; all methods may be called concurrently.
type Queue struct {
	dropped atomic.Uint64

	mu      sync.Mutex
	buf     []byte // guarded by mu
	head    int    // where the oldest begins; guarded by mu
	emptied bool   // a goroutine empties the queue; guarded by mu
}

// New makes an empty queue.
func New() *Queue { return new(Queue) }

// Dropped counts the datagrams that were displaced, or were none.
func (q *Queue) Dropped() uint64 { return q.dropped.Load() }

// Push copies a datagram in and never waits. It reports whether the queue has no reader:
// then the caller must start a goroutine that calls Pop or Take until the queue is empty.
// So an idle queue needs no goroutine.
func (q *Queue) Push(datagram []byte) (start bool) {
	if len(datagram) > frame.MaxDatagram || len(datagram) < frame.MinDatagram {
		q.dropped.Add(1)
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.buf)-q.head+frame.PrefixedSize(len(datagram)) > Limit {
		q.head += frame.PrefixedLen(q.buf[q.head:])
		q.dropped.Add(1)
	}
	if q.head > Limit {
		q.buf = append(q.buf[:0], q.buf[q.head:]...)
		q.head = 0
	}
	q.buf = frame.AppendPrefixed(q.buf, datagram)
	start = !q.emptied
	q.emptied = true
	return start
}

// Take returns all queued datagrams and keeps spare's memory for the next ones; nil when
// the queue is empty.
func (q *Queue) Take(spare []byte) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.buf[q.head:]
	if len(b) == 0 {
		q.emptied = false
		q.shrinkLocked()
		return nil
	}
	q.buf, q.head = spare[:0], 0
	return b
}

// Pop takes the oldest, with its length before it, into dst's memory; false
// when there is none.
func (q *Queue) Pop(dst []byte) ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.buf) {
		q.emptied = false
		q.shrinkLocked()
		return dst, false
	}
	n := frame.PrefixedLen(q.buf[q.head:])
	dst = append(dst[:0], q.buf[q.head:q.head+n]...)
	q.head += n
	if q.head == len(q.buf) {
		q.head, q.buf = 0, q.buf[:0]
	}
	return dst, true
}

func (q *Queue) shrinkLocked() {
	if cap(q.buf) > idleBytes {
		q.buf = nil
	}
}

// idleBytes is the memory that an empty queue may keep.
const idleBytes = 4 << 10
