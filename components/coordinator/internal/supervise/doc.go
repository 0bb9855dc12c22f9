// Package supervise keeps the coordinator's Consul server running: it writes
// the configuration, starts the child, starts it again with back-off when it
// dies, renews its certificate, and gives it its own ACL token and the key of its service
// mesh's CA.
//
// The configuration holds keys, so it lives in a run directory that should be
// memory-backed; Consul's data directory is on the CVM's encrypted disk.
package supervise
