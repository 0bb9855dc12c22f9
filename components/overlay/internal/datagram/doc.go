// Package datagram is the second carrier behind [carrier.Session]: QUIC over any
// net.PacketConn. It moves streams and datagrams between two nodes. The layer below the
// PacketConn chooses, probes and replaces paths, and a connection sees one address for
// its whole life.
//
//	Session ── streams ────────── one QUIC stream each
//	        ── control streams ── yamux ── frames ── the first QUIC stream
//	        ── pings ──────────────────────┘
//	        ── datagrams ──────── QUIC datagrams (RFC 9221)
//	        ── large datagrams ── length-prefixed on a one-way QUIC stream
//
// The two ends of a connection:
//
//	dialer                                   acceptor
//	  QUIC and TLS 1.3 handshake ──────────────►
//	  first stream: hello ─────────────────────►   [Transport.Accept] returns
//	  ◄───────────────────────── greeting on it    [Conn.First], the caller's
//	  ◄──────── pings and yamux on it ─────────►   [Conn.Client], [Conn.Server]
//
// Most Sessions never open a control stream: the multiplexer begins with the first.
//
// Liveness has one owner, as in the byte-stream carrier: a ping on the first stream every
// 2 s and a dead-man timer of 8 s. Only bytes that came through the connection's
// encryption reset the timer. QUIC's own idle time-out is far above it and its keepalive
// is off, so a connection outlives 8 s without any path.
package datagram
