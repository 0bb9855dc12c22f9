// Package baseline has the competitors of the overlay, each as roles of package worker: an
// application on kernel TCP or TLS, plain TCP splices, the design of the predecessor (QUIC over an
// ICE connection object), wireguard-go and Nebula. Each is set up as its own users would.
package baseline
