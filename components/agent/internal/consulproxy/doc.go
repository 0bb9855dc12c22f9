// Package consulproxy gives the workloads of this CVM Consul's HTTP API at the address where
// they look for it, though no Consul runs here: each request goes to a coordinator.
//
//	workload ─► 127.0.0.1:8500 ─ Proxy ══ one HTTP/2 connection in a Session ══ coordinator ─► Consul
//
// It holds on to one coordinator. When that is gone or silent, which it knows within a
// second while requests are open, it goes to the next one and takes along every request
// that may be asked again: reads and blocking queries, with their index and what is left
// of their wait, renewals of sessions, and anything that was certainly not sent. What may
// have had its effect is answered with an error, and its author asks again or does not.
//
// What a member may ask is for the coordinator to say. This package looks at nothing of a
// request but whether it may be repeated.
//
//	choose.go    which coordinator to try, in which order: pure
//	repeat.go    what may be asked again, and how: pure
//	hold.go      the coordinator that is held on to
//	upstream.go  one connection, and whether it is alive
//	call.go      one request, until it has its one answer
//	door.go      the listener and its bounds
package consulproxy
