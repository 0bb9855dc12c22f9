// Package frame is the wire form of the messages of two nodes inside a Session: a
// greeting, the header and reply of a stream, signals about streams, and datagrams. It is
// pure: bytes in, values out, every length fixed or bounded before it is used.
//
//	dialer                                   acceptor
//	  TLS 1.3 handshake ───────────────────────►
//	  ◄──────────────────────────────── Greeting     admitted, or why not
//	  per stream: Header ──────────────────────►
//	  ◄─────────────────────────────────── Reply     (forwarded streams only)
package frame
