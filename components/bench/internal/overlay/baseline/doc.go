// Package baseline has what the overlay is compared with, each as roles of
// package worker: an application on kernel TCP or TLS, plain TCP splices, the
// design of the predecessor (QUIC over an ICE connection object), wireguard-go and
// Nebula. Each is set up as its own users would.
package baseline
