// Package consulproxy gives members access to Consul. The proxy is an HTTP API in front of the
// coordinator's own Consul server, which listens on loopback, for callers authenticated by an
// overlay Session.
//
//	workload ── 127.0.0.1:8500 of its CVM ── overlay ── Consul proxy ── 127.0.0.1:8500 of the coordinator
//
// Consul decides by tokens alone, and a right of its ACL may reach further than its name suggests:
// the right to write a service includes its deregistration on other nodes. All requests that a
// member may make are therefore in one table (Rules), and any other request is refused before it
// reaches Consul. The Session proves the caller's Slot. The token must belong to that Slot, and
// sessions are made on that Slot's node, so that they end with its eviction.
//
// Operators use the API of package server, and coordinators their own Consul. The agent's side of
// the connection is part of the agent.
//
// The judging functions are pure (Judge, sessionBody, txnBody, place); Proxy does the I/O.
package consulproxy

//go:generate go run ./internal/gendocs -o ../../../../docs/reference/consul-proxy.md
