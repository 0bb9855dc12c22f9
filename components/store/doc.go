// Package store keeps the records of the control plane in Consul KV: typed access, watches, the
// Lease with its Term, and transactions fenced by it. It is the only importer of Consul's KV
// client. Package storetest has the in-memory twin and the contract suite that both pass.
package store
