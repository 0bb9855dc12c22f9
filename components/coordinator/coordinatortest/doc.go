// Package coordinatortest runs the parts of a coordinator for admission and control sessions, for
// benchmarks. It uses the same packages, with the wiring of package coordinator.
//
//	overlay listener ── admission.Service ──┐
//	                 ── control.Service ────┤── view.Watcher, store, tokens ──► Consul
//	guest agent (unix socket) ◄── quotes, keys; PCCS ◄── collateral
//
// Left out are the reconciler, the API, the forwarding of Consul's own ports between machines, and
// Consul, which is its own process. NewConsulProxy runs the members' Consul proxy alone, and
// NewLayer the parts of the service layer.
package coordinatortest
