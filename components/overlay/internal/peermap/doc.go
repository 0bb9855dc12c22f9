// Package peermap says what a peer map means for the node that was given it: who is
// admitted, who dials whom, which Sessions are made on demand, and which ports are open.
//
//	[]Peer ─► Self.Read ─► Map ─┬─ Facts ──► package link
//	                            ├─ Rules ──► package forward
//	                            └─ Admits ─► whoever takes connections
//
// A [Map] is a value and is never changed. [Current] holds the one that is in force.
package peermap
