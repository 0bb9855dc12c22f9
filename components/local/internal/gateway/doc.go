// Package gateway is the TLS gateway of the local cloud. It reads the name of a ClientHello, picks
// the named CVM, and copies bytes.
//
//	<app id or instance id>[-<port>[s|g]].<base domain>
//
// An app id means one of the app's running CVMs, in turn; an instance id means that CVM. With the
// suffix s the CVM ends TLS, and the gateway learns only the name. Without it the gateway ends TLS,
// with a certificate of the cloud's own CA, and uses plain TCP to the port; g offers the client
// HTTP/2.
package gateway
