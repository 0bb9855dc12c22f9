// Package overlay connects the admitted machines of a cluster. A [Node] has Sessions
// with the Peers of the map it is given, authenticated both ways by the certificates of
// admission, and forwards the ports that the map allows.
//
//	workload ─► peerVIP:port ─ Node ══ Session ══ Node ─► ownVIP:port ─► workload
//	part     ─► DialService ── Node ══ stream ═══ Node ─► Config.Serve
//	agent    ─► gRPC ───────── Node ══ control ══ Node ─► gRPC ───────── coordinator
//	new Boot ─► DialAdmission ════ one stream ═══ Node ─► ServeAdmission
//
// Who may be reached, and on which ports, is for the leader to say and for the
// receiver to check. This package knows nothing of specs, leases or evidence,
// and does not decide who is admitted.
//
// A Session travels through the TLS pass-through gateway, directly over TCP, directly
// over UDP or over a relay; the best there is carries what is new. With
// [Config.OnDemand] most Peers have one only while somebody uses it.
//
// This package is the front door: what a caller sets, asks and is told. What is done is
// done below, from the top down:
//
//	internal/peer       one Link: a loop that owns all that changes about a Peer
//	internal/control    control connections, which follow the Session in use
//	internal/recertify  renewed certificates on Sessions that live
//	internal/measure    round trips and throughput of a Link
//	internal/accept     connections from outside, among them first contacts (internal/admission)
//	internal/session    makes Sessions: dials, welcomes, greets
//	internal/peermap    what a peer map means for this node
//	internal/search     looks for paths to a Peer, above internal/ice and internal/punch
//	internal/link       what to do about a Peer: pure, events in, effects out
//	internal/underlay   the one UDP socket, and which of its paths is used
//	internal/mailbox    messages to a Peer through a rendezvous, sealed by internal/signal
//	internal/carrier    Session and Stream; on a byte stream: TLS 1.3 and yamux
//	internal/datagram   the same on datagrams: QUIC, paced by internal/bbr
//	internal/forward    ports of workloads over a Session
//	internal/service    a stream as a connection for the node's own services
//	internal/identity   names, and what a certificate must show
//	internal/gateway    machines by their name at the pass-through
//	internal/frame      the bytes in front of the bytes
package overlay
