// Package consulproxy serves Consul's HTTP API to the workloads of this CVM at the usual local
// address, though no Consul runs here: each request goes to a coordinator.
//
//	workload ─► 127.0.0.1:8500 ─ Proxy ══ one HTTP/2 connection in a Session ══ coordinator ─► Consul
//
// The Proxy stays with one coordinator. When that coordinator stops answering, which the Proxy
// detects within a second while requests are open, the Proxy changes to the next one. It repeats
// every request that is safe to repeat: reads and blocking queries, with their index and the rest
// of their wait, renewals of sessions, and any request that was certainly not sent. A request that
// may have had its effect is answered with an error, and its client decides about a retry.
//
// The coordinator decides which requests a member may make. This package inspects a request only to
// decide whether it may be repeated.
//
//	choose.go       which coordinator to try, in which order: pure
//	repeat.go       which requests may be repeated, and how: pure
//	connection.go   the present coordinator and the change to the next
//	upstream.go     one connection, and whether it is alive
//	call.go         one request, until it has its one answer
//	consulproxy.go  the listener and its bounds
package consulproxy
