// Package xds is how proxies of members get their configuration: streams of xDS to the
// coordinator's own Consul, which listens on loopback, for those whom an overlay Session vouches
// for.
//
//	Envoy ── 127.0.0.1:8502 of its CVM ── overlay ── Relay ── 127.0.0.1:8502 of the coordinator
//
// Consul lets everybody be any proxy whose service its token may write, and who may write a
// service may take it off any node. So members have no such token: a coordinator opens their
// streams with one of its own (keeper), made for the caller's group, which never leaves it. In
// return it looks who the stream says that it is: the proxy must be one that the caller's Slot may
// be, on the node of that Slot. What says so is sent to Consul as it was judged, and nothing else
// of it (first); what a stream says of itself later is not sent on (later).
//
// One method is served, the one that Envoy is told to use. Messages of members are read one by
// one, those of Consul are copied: nothing here knows what a configuration is.
//
// A connection of a member ends with a stream that this coordinator's Consul is not there for, or
// has no room for: the member's next connection goes to another coordinator.
//
// Judging is pure (first, later, judge); Relay is the shell around it.
package xds
