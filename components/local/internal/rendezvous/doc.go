// Package rendezvous runs the rendezvous program of a local cloud in its fabric, where CVMs and
// their NATs reach it, with a TLS certificate for it. The program is a separate component; this
// package restarts it when it ends.
package rendezvous
