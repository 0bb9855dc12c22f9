// Package carrier moves streams and datagrams between two nodes that have already
// authenticated each other. [Session] is the seam: the byte-stream carrier here is TLS
// 1.3 and yamux over one TCP connection; a datagram carrier fits behind the same
// interface.
//
//	[Session] ── streams ──┐
//	          ── datagrams ┤ yamux ── join ── TLS 1.3 ── meter ── TCP
//	          ── signals ──┘
//
// yamux has no public way to reset a stream and reports the death of its session to
// readers as a clean end. Both would turn a broken application connection into a
// truncated one. So this package carries resets as signals on a stream of their own, and
// reports [io.EOF] only for the far side's own half-close.
package carrier
