// Package rendezvous runs the rendezvous program of a local cloud in its fabric,
// where CVMs and their NATs reach it, with a TLS certificate made for it. The
// program itself is somebody else's: this package starts it again when it ends.
package rendezvous
