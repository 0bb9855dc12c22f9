// Package keys has the secrets that all coordinators of one cluster share without any exchange: the
// cluster CA, the CA of Consul's service mesh, the gossip key, the tokens and the workloads'
// secrets. Each is derived from the cluster ID, which is no secret, and from a key that the guest
// agent gives to this app only. A coordinator that knows the cluster ID thus needs no peer, disk or
// operator to derive them. No process outside an attested coordinator can derive them.
//
// Functions of this package take the time as an argument. Derived values never reach a log, the
// environment or a file.
package keys
