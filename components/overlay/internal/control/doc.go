// Package control keeps the control connections of a Link: a pair of streams, each of which
// carries gRPC, one in each direction. The dialer of the Sessions has them on the Session in
// use, and decides when they leave another; the other side serves the dialer's connections.
//
// A [Record] is the Link's state of them, and belongs to its loop. A [Channel] opens,
// collects and runs pairs, and asks the [Link].
package control
