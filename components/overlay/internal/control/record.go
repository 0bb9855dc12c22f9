package control

import (
	"context"
	"sync/atomic"
)

// Record is which control connections a Link has. Its zero value has none. It belongs to
// one goroutine.
type Record struct {
	// present is the dialer's present pair.
	present *pair
	// opening are the Sessions on which a pair is being opened.
	opening map[uint64]bool
	// running counts the pairs that run, by Session: such a Session is not retired.
	running map[uint64]int
}

// Running is how many pairs run on a Session.
func (r *Record) Running(session uint64) int { return r.running[session] }

// Begin notes that a pair is being opened on a Session; false when one is already. A
// Session that is left and used again before the pair is open needs one only; two at once
// would be taken for nonsense.
func (r *Record) Begin(session uint64) bool {
	if r.opening[session] {
		return false
	}
	if r.opening == nil {
		r.opening = map[uint64]bool{}
	}
	r.opening[session] = true
	return true
}

// Opened ends the opening that Begin recorded.
func (r *Record) Opened(session uint64) { delete(r.opening, session) }

// Take records a pair. The dialer's pair takes over from its present pair.
func (r *Record) Take(t Taken) {
	if t.Dialer {
		if r.present != nil {
			r.present.end(errMoved)
		}
		r.present = t.pair
	}
	if r.running == nil {
		r.running = map[uint64]int{}
	}
	r.running[t.Session]++
}

// Drop ends the pair that Take recorded.
func (r *Record) Drop(session uint64) {
	if r.running[session]--; r.running[session] == 0 {
		delete(r.running, session)
	}
}

// Present reports whether a pair is the dialer's present one.
func (r *Record) Present(t Taken) bool { return t.pair != nil && r.present == t.pair }

// Taken names a pair on a Session.
type Taken struct {
	Session uint64
	// Dialer: this side opened it.
	Dialer bool
	pair   *pair
}

// pair is the shared state of both connections of a pair.
type pair struct {
	// gone: the far side gave the pair up.
	gone atomic.Bool
	end  context.CancelCauseFunc
}
