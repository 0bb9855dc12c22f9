// Package overlay connects the admitted machines of a cluster. A [Node] has Sessions
// with the Peers of the map it is given, authenticated both ways by the certificates of
// admission, and forwards the ports that the map allows.
//
//	workload ─► peerVIP:port ─ Node ══ Session ══ Node ─► ownVIP:port ─► workload
//	part     ─► DialService ── Node ══ stream ═══ Node ─► Config.Serve
//	agent    ─► gRPC ───────── Node ══ control ══ Node ─► gRPC ───────── coordinator
//	new Boot ─► DialAdmission ════ one stream ═══ Node ─► ServeAdmission
//
// The leader decides which Peers may be reached, and on which ports. The receiver enforces
// that. This package handles no specs, leases or evidence, and does not decide admissions.
//
// A Session travels through the TLS pass-through gateway, directly over TCP, directly over UDP
// or over a relay; new streams use the best present path. With [Config.OnDemand] most Peers
// have a Session only while a connection uses it.
//
// This package is the entry point, with the settings, requests and reports of a caller. The
// packages below do the work, from the top down:
//
//	internal/peer       one Link: a loop that owns all that changes about a Peer
//	internal/control    control connections, which follow the Session in use
//	internal/recertify  renewed certificates on Sessions that live
//	internal/measure    round trips and throughput of a Link
//	internal/accept     connections from outside, among them first contacts (internal/admission)
//	internal/session    makes Sessions: dials, welcomes, greets
//	internal/peermap    the meaning of a peer map for this node
//	internal/search     looks for paths to a Peer, above internal/ice and internal/punch
//	internal/link       the decisions about a Peer: pure, events in, effects out
//	internal/underlay   the one UDP socket, and the choice among its paths
//	internal/mailbox    messages to a Peer through a rendezvous, sealed by internal/signal
//	internal/carrier    Session and Stream; on a byte stream: TLS 1.3 and yamux
//	internal/datagram   the same on datagrams: QUIC, paced by internal/bbr
//	internal/forward    ports of workloads over a Session
//	internal/service    a stream as a connection for the node's own services
//	internal/identity   names, and the checks of a certificate
//	internal/gateway    machines by their name at the pass-through
//	internal/frame      the bytes in front of the bytes
package overlay
