// Package session makes Sessions, as the side that dials and as the side that is dialled:
// TLS by the certificates of admission, a greeting that says whether the peer map names
// the caller, and a carrier on top. What a Session is used for, and when one is wanted, is
// package peer's.
//
//	gateway, direct stream ──► TLS 1.3 ──► greeting ──► package carrier  ──► Session
//	path at the socket ──────► QUIC ─────► greeting ──► package datagram ──►
package session
