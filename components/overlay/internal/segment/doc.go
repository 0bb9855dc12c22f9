// Package segment keeps connections to rendezvous servers in small TCP segments. What is
// said there helps to find a path when others are lost, so it must pass where those do
// not: also over a path that has come to carry less than TCP believes. The kernel finds
// that out by itself after many seconds, or never (net.ipv4.tcp_mtu_probing). What is
// relayed by TURN over TCP pays with a fifth more headers.
package segment
