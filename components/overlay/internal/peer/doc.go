// Package peer runs the Link to one Peer: it feeds events to the machine of package link
// and executes the machine's effects.
//
//	dials, Sessions, timers, searches, mailbox, apps ──► loop ──► link.State.Step
//	  ▲                                                   │              │
//	  └───────────── goroutines of the Link ◄─────────────┴── effects ◄──┘
//
// Everything about a Peer that changes is in a core, which its loop owns: nothing else
// reads or writes it, so there is no lock, and no order of locks. Other goroutines post an
// event, or ask and wait. The loop runs only while there is something to do; a Peer that
// rests has no goroutine.
//
// A [View] is a copy, for values that are read seldom and from many places.
package peer
