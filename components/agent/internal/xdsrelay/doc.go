// Package xdsrelay carries the xDS traffic between the Envoys of this CVM and a coordinator.
//
//	Envoy ─► 127.0.0.1:8502 ─ Relay ══ a stream in a Session ══ coordinator ─► Consul
//
// The Relay copies bytes without parsing them: the coordinator decides which requests a member may
// make, and with which token. Each connection has one coordinator, the choice of the Consul proxy,
// and ends with it. Envoy connects again within a fraction of a second, keeps its configuration
// meanwhile, and the Relay then carries it to the next coordinator.
package xdsrelay
