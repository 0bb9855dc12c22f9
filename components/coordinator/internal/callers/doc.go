// Package callers shares the capacity of the operators' API among those who call it, so
// that strangers cannot take what operators need (INP-04, INP-08).
//
// Whoever connects is a newcomer until its TLS handshake is over, a stranger until a call
// brings a token that Consul knows as an operator's, and then an operator's connection.
// Each class has places of its own. Newcomers and strangers are held to a time and a
// number of bytes, and never keep anybody out: when their places are taken, the source
// that has most of them gives its oldest one up. So who connects always has a place; with
// a token it is soon among the operators, and there stays, whatever strangers do.
//
// A token is judged when the headers of a call are there and before anything else of it
// is read. What Consul has vouched for once is let through at once and asked about again
// beside; what it has not waits in line, by source in turns, for one of a few who ask.
// This decides about capacity alone. What a token may do is decided by Consul, with each
// read and write that is done with it.
package callers
