// Package kvproxy is the way of operators to Consul KV: it passes reads and writes of Cadre's records
// from the operators' API on to the local Consul, each with the caller's own token. Consul decides
// about the rights. The package bounds requests and refuses every other path, method and parameter,
// and every write without check-and-set.
package kvproxy
