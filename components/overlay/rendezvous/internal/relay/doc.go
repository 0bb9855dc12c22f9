// Package relay is the STUN and TURN service of a rendezvous, over UDP and TCP. The
// protocol engine is pion/turn. A relayFilter in front of it authorizes each request, and
// each relay socket has a meter and an addressFilter:
//
//	client ──► relayFilter ──► pion/turn ──► relay socket ──► peer
//	           │ credential, quota,          │ filter: address and port (OVL-11)
//	           │ nonce bound to the          │ bytes per second of the owner
//	           │ source, 3x bound            │ ends with the owner's credential (OVL-12)
//
// The relayFilter reads every request before the engine does, for three reasons. Refusals carry
// their reason (TURN_CRED_EXPIRED, RELAY_PEER_FORBIDDEN). An allocation stays its
// owner's. An unvalidated sender gets at most three times its own bytes (OVL-09), and the
// engine's own challenges are longer than that.
//
// A relay sees which Peers communicate, when, and how much. It carries QUIC or TLS
// between the Peers.
package relay
