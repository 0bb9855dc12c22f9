// Package peermap interprets a peer map for its node: which Boots are admitted, which
// side dials, which Sessions are made on demand, and which ports are open.
//
//	[]Peer ─► Self.Read ─► Map ─┬─ Facts ──► package link
//	                            ├─ Rules ──► package forward
//	                            └─ Admits ─► the acceptors of connections
//
// A [Map] is an immutable value. [Current] holds the map in force.
package peermap
