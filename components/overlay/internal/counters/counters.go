// Package counters counts a node's rejected and accepted connections, over all its parts.
package counters

import "sync/atomic"

// Counters may be counted in by any goroutine.
type Counters struct {
	// FailedHandshakes counts connections that ended before the far side showed a usable
	// certificate; NotAdmitted counts genuine certificates that the peer map does not
	// name.
	FailedHandshakes, NotAdmitted atomic.Uint64
	// Overloaded found no free place for a handshake or a first contact; Admissions is the
	// number of first contacts served.
	Overloaded, Admissions atomic.Uint64
	// InvalidFrames and Forbidden count streams of no known or allowed kind, LinkLimit
	// those above a Peer's number.
	InvalidFrames, Forbidden, LinkLimit atomic.Uint64
}
