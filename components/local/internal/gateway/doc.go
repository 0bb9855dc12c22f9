// Package gateway is the TLS pass-through gateway of the local cloud. It reads
// the name out of a ClientHello, picks the CVM that the name means, and copies
// bytes. It ends no TLS and learns nothing else.
//
//	<app id or instance id>-<port>s.<base domain>
//
// An app id means one of the app's running CVMs, in turn; an instance id means
// that CVM. The suffix s is pass-through; names without it are refused.
package gateway
