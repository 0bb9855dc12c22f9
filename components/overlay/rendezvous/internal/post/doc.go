// Package post keeps mailboxes: envelopes that wait for the Boot they are
// addressed to, for half a minute at most, in bounded memory.
//
//	Put ──► Box of (identity, Boot) ──► Due ──► the owner's connection
//	              ▲                                   │
//	              └────────── Ack, or expiry ◄────────┘
//
// A box exists while its owner is connected and a little longer. A message leaves the box
// when its owner acknowledges it, never by reading alone (OVL-02). The package has no
// goroutine and no clock: callers pass the time.
package post
