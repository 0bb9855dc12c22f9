// Package overlay connects the admitted machines of a cluster. A [Node] keeps
// one Session with every Peer of the map it is given, authenticated both ways
// by the certificates of admission, and forwards the ports that the map allows.
//
//	workload ─► peerVIP:port ─ Node ══ Session ══ Node ─► ownVIP:port ─► workload
//	agent    ─► gRPC ───────── Node ══ control ══ Node ─► gRPC ───────── coordinator
//	new Boot ─► DialAdmission ════ one stream ═══ Node ─► ServeAdmission
//
// Who may be reached, and on which ports, is for the leader to say and for the
// receiver to check. This package knows nothing of specs, leases or evidence,
// and does not decide who is admitted.
//
// Every Session runs through the TLS pass-through gateway over the byte-stream
// carrier, TLS 1.3 and yamux. Inside:
//
//	internal/identity   names, and what a certificate must show
//	internal/link       what to do about a Peer: pure, events in, effects out
//	internal/carrier    Session and Stream, the seam for further carriers
//	internal/forward    ports of workloads over a Session
//	internal/frame      the bytes in front of the bytes
package overlay
