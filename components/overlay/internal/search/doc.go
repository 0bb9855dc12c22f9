// Package search looks for direct and relayed paths to one Peer. A [Finder] is what a
// Link has for it; it runs one search at a time, spaced, and when the node has a place
// for it. Whether a search is wanted, and which epoch it has, is decided by package link.
//
//	Link ── Want, Nudge, Redial, Take ──► Finder ── one search ─┬─ ice    ─► path at the socket ─► Session over UDP
//	  ▲                                     │                   └─ punch  ─► direct stream      ─► Session over TCP
//	  └───────────── Owner ─────────────────┘                      messages through the mailbox
//
// It makes no Session: its [Owner] does, out of a path or a stream that was found. What
// all Links of a node share is a [Field].
package search
