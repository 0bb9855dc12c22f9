// Package keys holds what all coordinators of one cluster share without ever
// telling each other: the cluster CA, that of Consul's service mesh, the gossip key, the
// tokens and the workloads' secrets. Each is derived from a key that the guest agent gives to
// this app only, and from the cluster's cluster ID, which is no secret. So a coordinator
// that knows the cluster ID needs no peer, no disk and no operator to know them, and
// nobody outside an attested coordinator can.
//
// Nothing here reads a clock except through an argument, and derived values
// never reach a log, the environment or a file.
package keys
