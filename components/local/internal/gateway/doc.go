// Package gateway is the TLS gateway of the local cloud. It reads the name out of a
// ClientHello, picks the CVM that the name means, and copies bytes.
//
//	<app id or instance id>[-<port>[s|g]].<base domain>
//
// An app id means one of the app's running CVMs, in turn; an instance id means that CVM.
// With the suffix s the CVM ends TLS, and the gateway learns nothing but the name. Without
// it the gateway does, with a certificate of the cloud's own CA, and speaks plain TCP to
// the port; g offers the client HTTP/2.
package gateway
