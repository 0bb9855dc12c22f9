// Package consulproxy is how members reach Consul: an HTTP API in front of the coordinator's own
// Consul server, which listens on loopback, for those whom an overlay Session vouches for.
//
//	workload ── 127.0.0.1:8500 of its CVM ── overlay ── Consul proxy ── 127.0.0.1:8500 of the coordinator
//
// Consul judges rights by tokens alone, and a right of its ACL may reach further than it
// says: who may write a service may deregister it on other nodes. So what a member may ask
// for at all stands in one table (Rules), and everything else is refused before Consul sees
// it. The caller's Slot is the one that its Session proved: the token must be one of that
// Slot's, and sessions are made on that Slot's node, so that they end with its eviction.
//
// What it is not for: operators have the API of package server, coordinators their own
// Consul, and the agent's side of the way is the agent's.
//
// Judging is pure (Judge, sessionBody, txnBody, place); Proxy is the shell around it.
package consulproxy

//go:generate go run ./internal/gendocs -o ../../../../docs/consul-proxy.md
