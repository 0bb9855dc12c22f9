// Package forward carries the ports of one machine's workloads to another over
// a Session, so that a workload sees its peers at their VIPs as if they were
// hosts on its network.
//
//	app ─► peerVIP:port ─ listener ══ stream ══ check ─► ownVIP:port ─► workload
//	                                    (source address: the sender's VIP)
//
// A port that is declared to be on loopback is dialled at 127.0.0.1 instead;
// neither address stands in for the other.
//
// The receiver decides: the policy must let the Peer reach (Peer, protocol, port).
// Otherwise the stream ends with PORT_FORBIDDEN and the app's connection with a reset
// (OVL-07, OVL-08). The receiver dials only its own addresses.
package forward
