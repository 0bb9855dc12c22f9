// Package link decides what to do about one Peer: dial, look for better paths,
// choose among Sessions, let them go. It is pure: events in, effects out; no
// clock, no network, no goroutine. The loop that runs it is package peer's.
//
// Two things go on beside each other, both only ever adding Sessions:
//
//	gate    keeps one Session through the gateway: the one path that is there at
//	        once and needs no other party. Only the side that dials does.
//
//	        idle ──► dialing ──► held ──► (lost) dialing
//	                  │   ▲
//	                  ▼   │ Timer, new facts, Nudged
//	                 back-off
//
//	finder  looks for direct and relayed paths, one search at a time. Searches
//	        are numbered by epoch, and only the side that dials begins them; the
//	        other follows the highest epoch that it has seen of the Peer's Boot and
//	        asks with a nudge when it wants one. So two ends that restart together
//	        converge: there is one author per epoch, and a new Boot begins anew
//	        (OVL-03).
//
//	        idle ──► finding ──► idle (DirectTCP) or waiting for the next try
//
// Of the Sessions that are there the one of the best [Class] is used; a new one of
// a class that is there already replaces the old. One more is kept as a standby, the
// gateway's if there is one; others are retired: they end when nothing uses them.
package link
