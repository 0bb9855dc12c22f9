// Package link decides for one Peer when to dial, when to look for better paths, which
// Session to use, and which Sessions to end. The package is pure: events go in, effects
// come out, and it has no clock, network or goroutine. Package peer runs the loop around
// it.
//
// Two processes run in parallel, and both only add Sessions:
//
//	gateway keeps one Session through the gateway: the one path that is there at
//	dialer  once and needs no other party. Only the side that dials does.
//
//	        idle ──► dialing ──► up ──► (lost) dialing
//	                  │   ▲
//	                  ▼   │ Timer, new facts, Nudged
//	                 back-off
//
//	finder  looks for direct and relayed paths, one search at a time. Searches
//	        are numbered by epoch, and only the side that dials begins them; the
//	        other follows the highest epoch that it has seen of the Peer's Boot and
//	        asks with a nudge when it wants one. So two ends that restart together
//	        converge: one side writes the epochs, and a new Boot has epochs of its own
//	        (OVL-03).
//
//	        idle ──► finding ──► idle (DirectTCP) or waiting for the next try
//
// The Link uses the Session of the best [Class]. A new Session replaces an older one of
// the same class. The Link keeps one more Session as a standby, preferably the gateway's.
// It retires the others: a retired Session ends when nothing uses it.
package link
