// Package supervise keeps the coordinator's Consul server running: it writes the configuration,
// starts the child, restarts it with back-off when it dies, and renews its certificate. It also
// sets the server's own ACL token and the key of its service mesh's CA.
//
// The configuration holds keys, so it is in a run directory that should be memory-backed. Consul's
// data directory is on the CVM's encrypted disk.
package supervise
