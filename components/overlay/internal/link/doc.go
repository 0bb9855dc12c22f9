// Package link decides what to do about one Peer: dial, wait, use a Session,
// replace it, let it go. It is pure: events in, effects out; no clock, no
// network, no goroutine. The shell that runs it is overlay's.
//
//	          ┌──────────── facts name no Boot or no place ───────────┐
//	          ▼                                                       │
//	Absent ──────► Awaited (the Peer dials)                           │
//	   │              │ Connected                                     │
//	   └► Dialing ────┴──────────────► Up ── Lost / replaced ─────────┤
//	        │  ▲                        │                             │
//	 Failed ▼  │ Timer, new facts       └─► Dialing or Awaited        │
//	      BackOff ────────────────────────────────────────────────────┘
package link
