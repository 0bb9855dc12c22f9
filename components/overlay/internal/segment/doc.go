// Package segment keeps connections to rendezvous servers in small TCP segments. The
// messages to these servers help to find a path after others are lost. So they must pass
// where those paths fail: also over a path that has come to carry less than TCP believes.
// The kernel detects that only after many seconds, or never (net.ipv4.tcp_mtu_probing).
// Data that TURN relays over TCP pays with a fifth more headers.
package segment
