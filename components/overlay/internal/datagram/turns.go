package datagram

import (
	"sync/atomic"
	"time"
)

const (
	// shortChunk and longChunk bound one yamux frame. Control streams take turns by
	// frames, so short frames share better. Each frame costs both ends several changes of
	// goroutine, and ends a batch of packets early, so long frames are cheaper.
	shortChunk, longChunk = 16 << 10, 64 << 10
	// longTurn is the most that a long frame may take.
	longTurn = 2 * time.Millisecond
	// fastTurns is the number of fast short frames in a row after which frames become
	// long: long frames would have kept to longTurn. This many frames hold more than the
	// pacer lets out at once on a slow path.
	fastTurns = 8
)

// turns decides how long a control stream's turn is. Frames are short until the path
// has proved fast, and short again as soon as one takes too long. Its zero value is
// ready.
type turns struct {
	fast int // short frames in a row
	long atomic.Bool
}

// chunk may be called by anyone.
func (t *turns) chunk() int {
	if t.long.Load() {
		return longChunk
	}
	return shortChunk
}

// took records how long QUIC took to accept a frame of n bytes. A frame much smaller than
// a short frame fits a buffer and proves nothing.
func (t *turns) took(n int, d time.Duration) {
	switch {
	case d > longTurn:
		t.fast = 0
		t.long.Store(false)
	case t.long.Load() || n < shortChunk/2:
	case d > longTurn*time.Duration(n)/longChunk:
		t.fast = 0
	default:
		if t.fast++; t.fast >= fastTurns {
			t.fast = 0
			t.long.Store(true)
		}
	}
}
