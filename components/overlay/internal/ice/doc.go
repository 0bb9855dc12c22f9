// Package ice finds a UDP path to one Peer by ICE. A Search has credentials of its own
// and pion/ice agents for them, one on the shared socket and one on relays. It runs in
// parallel with any path in use, reports the pairs of addresses that answer, and owns no
// data except a relay's.
//
//	           offers, answers, candidates (signaling, the caller's)
//	                │ SetRemote, AddRemote          ▲ Local, Candidates
//	                ▼                               │
//	[Search] ── pion/ice agents ── checks ── [Mux] ── the node's one UDP socket
//	   │              └── TURN client (own socket: udp, tcp or tls)
//	   └── Wait, Better: [Found]
//
// The Mux is ours rather than pion's for four reasons. pion's passes a datagram to the
// agent that last wrote to its source, so two searches towards one Peer take each other's
// answers; ours goes by user name and transaction. Ours drops unauthenticated messages
// before an agent or its memory sees them, paces checks to addresses that never answered,
// and sees every answer. So a pair is reported after one round trip instead of after its
// nomination.
//
// It is not for choosing among paths, for liveness or for data: the underlay
// does that, with probes of its own.
package ice
