// Package xdsrelay carries what the Envoys of this CVM and a coordinator say to each other.
//
//	Envoy ─► 127.0.0.1:8502 ─ Relay ══ a stream in a Session ══ coordinator ─► Consul
//
// It copies bytes and understands none: what a member may ask, and with which token, is for
// the coordinator to say. Each connection has one coordinator, the one that the Consul proxy
// prefers, and ends with it. Envoy connects again within a fraction of a second, keeps its
// configuration meanwhile, and is then carried to the next one.
package xdsrelay
