// Package client talks to a cluster's coordinators: the typed operator API over gRPC, through the
// platform's TLS pass-through gateway.
//
// The gateway and the platform are not trusted. A cluster's Context pins the cluster's CA, and each
// connection checks the coordinator's certificate against it. The pin comes from Attest: the
// coordinator shows hardware evidence for the very key of the connection and for the CA, and the
// Context's trust defines which coordinators are ours.
//
//	Attest ──► Context (CA pinned) ──► Dial ──► Client: groups, plans, rollouts, instances
//
// Sub-package groupfile reads the users' files; clienttest is a coordinator for tests.
package client
