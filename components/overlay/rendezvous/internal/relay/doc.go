// Package relay is the STUN and TURN service of a rendezvous, over UDP and TCP.
// The protocol engine is pion/turn; in front of it stands a gate that decides
// who may do what, and around each relay socket a meter and a filter:
//
//	client ──► gate ──► pion/turn ──► relay socket ──► peer
//	           │ credential, quota,   │ filter: address and port (OVL-11)
//	           │ nonce bound to the   │ bytes per second of the owner
//	           │ source, 3x bound     │ ends with the owner's credential (OVL-12)
//
// The gate reads every request before the engine does, so that refusals carry
// their reason (TURN_CRED_EXPIRED, RELAY_PEER_FORBIDDEN), so that an allocation
// stays its owner's, and so that nobody who is not validated gets back more than
// three times what they sent (OVL-09): the engine's own challenges are longer
// than that.
//
// A relay sees who talks to whom, when, and how much. What it carries is QUIC or
// TLS between the Peers.
package relay
