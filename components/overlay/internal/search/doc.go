// Package search looks for direct and relayed paths to one Peer. Each Link has a [Finder]. A Finder
// runs one search at a time, spaced, and when the node has a free place for it. Package link
// decides whether a search is wanted and which epoch it has.
//
//	Link ── Want, Nudge, Redial, Take ──► Finder ── one search ─┬─ ice    ─► path at the socket ─► Session over UDP
//	  ▲                                     │                   └─ punch  ─► direct stream      ─► Session over TCP
//	  └───────────── Owner ─────────────────┘                      messages through the mailbox
//
// The package makes no Session: its [Owner] makes Sessions out of the found paths and streams. A
// [Field] is the part that all Links of a node share.
package search
