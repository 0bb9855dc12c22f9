// Package tokens keeps the Consul ACL tokens that Cadre gives out: one for each
// coordinator's own server, two for each admitted Boot, one for the operator.
// It talks to the local Consul with the cluster's management token, which never
// leaves the coordinator.
package tokens
