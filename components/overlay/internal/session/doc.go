// Package session makes Sessions, on the dialing and on the accepting side. A Session has
// TLS with the certificates of admission, a greeting that reports whether the peer map
// names the caller, and a carrier on top. Package peer decides when a Session is wanted
// and uses it.
//
//	gateway, direct stream ──► TLS 1.3 ──► greeting ──► package carrier  ──► Session
//	path at the socket ──────► QUIC ─────► greeting ──► package datagram ──►
package session
