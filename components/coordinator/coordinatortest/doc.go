// Package coordinatortest runs what a coordinator has for admission and control sessions,
// for benchmarks. It is made of the same packages and wired as package coordinator does it.
//
//	overlay listener ── admission.Service ──┐
//	                 ── control.Service ────┤── view.Watcher, store, tokens ──► Consul
//	guest agent (unix socket) ◄── quotes, keys; PCCS ◄── collateral
//
// Left out are the reconciler, the API, the forwarding of Consul's own ports between
// machines, and Consul, which is a process of its own. The Consul proxy of members stands beside
// it, by itself (NewConsulProxy), and so does what the service layer needs (NewLayer).
package coordinatortest
