// Package backlog holds the datagrams that wait for a carrier. Both carriers use it:
// one takes all that waits for a single write, the other one datagram for each packet.
package backlog
