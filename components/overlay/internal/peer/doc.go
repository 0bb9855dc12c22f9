// Package peer runs the Link to one Peer: it feeds events to the machine of package link
// and executes the machine's effects.
//
//	dials, Sessions, timers, searches, mailbox, apps ──► loop ──► link.State.Step
//	  ▲                                                   │              │
//	  └───────────── goroutines of the Link ◄─────────────┴── effects ◄──┘
//
// The changing state of a Peer is in a core. Only its loop reads or writes the core, so
// there is no lock, and no order of locks. Other goroutines post an event, or ask and
// wait. The loop runs only while there is work; a Peer that rests has no goroutine.
//
// A [View] is a copy, for values that are read seldom and from many places.
package peer
