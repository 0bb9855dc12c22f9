// Package xds delivers the configuration of members' proxies: it relays their streams of xDS to the
// coordinator's own Consul, which listens on loopback. An overlay Session authenticates each
// member.
//
//	Envoy ── 127.0.0.1:8502 of its CVM ── overlay ── Relay ── 127.0.0.1:8502 of the coordinator
//
// In Consul, a token that may write a service can be any of its proxies, and can deregister the
// service on any node. So members have no such token: a coordinator opens their streams with its
// own token (keeper), issued for the caller's group, which never leaves the coordinator. In return
// the Relay checks the identity in the stream: it must be a proxy that the caller's Slot may be, on
// the node of that Slot. The Relay sends Consul exactly the identity that it judged (first). It
// removes any identity from later messages (later).
//
// It serves a single method, the method of Envoy. It reads messages of members one by one, and
// copies those of Consul: this package does not decode any configuration.
//
// The Relay closes a member's connection when this coordinator's Consul is unavailable or full for
// its stream: the member's next connection goes to another coordinator.
//
// The judgement is pure (first, later, judge); Relay has the I/O.
package xds
