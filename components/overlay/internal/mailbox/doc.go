// Package mailbox is how two Peers that have no path yet reach each other: a
// client of any number of rendezvous servers, and the wire form that client and
// server share.
//
//	Client ── WebSocket, own SVID ──► server A ─┐
//	   └───── WebSocket, own SVID ──► server B ─┴─ mailbox of (identity, Boot)
//	   ◄──── messages, certificates of Peers, STUN and TURN credentials
//
// The servers are trusted with liveness and nothing else. What they hand over is
// proven here: envelopes by package signal, certificates by the cluster CA.
// A server is checked by WebPKI or by the CA that is given for it, so that not
// everybody on the way learns who looks for whom; a lying server can do no more
// than a silent one. Delivery is at least once from the server, at most once
// from [Client.Messages].
//
//	wire.go     frames and answers: strict, bounded, pure
//	client.go   the set of servers, what they offer
//	session.go  one connection to one server
//	send.go     find the Boot, seal, hand over to all that know it
//	receive.go  open, take once, acknowledge
package mailbox
