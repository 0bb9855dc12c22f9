// Package mailbox is how two Peers that have no path yet reach each other: a
// client of any number of rendezvous servers, and the wire form that client and
// server share.
//
//	Client ── WebSocket, own SVID ──► server A ─┐
//	   └───── WebSocket, own SVID ──► server B ─┴─ mailbox of (identity, Boot)
//	   ◄──── messages, certificates of Peers, STUN and TURN credentials
//
// The servers are trusted with liveness and nothing else. This package authenticates
// their data: envelopes by package signal, certificates by the cluster CA. WebPKI or a
// configured CA authenticates a server, so that an eavesdropper on the way does not learn
// which members search for each other. A lying server has no more effect than a silent
// one. Delivery is at least once from the server, at most once from [Client.Messages].
//
//	wire.go     frames and answers: strict, bounded, pure
//	client.go   the set of servers and their offers
//	session.go  one connection to one server
//	send.go     find the Boot, seal, hand over to all that know it
//	receive.go  open, take once, acknowledge
package mailbox
