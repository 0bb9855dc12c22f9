// Package tokens keeps the Consul ACL tokens that Cadre gives out: one for each
// coordinator's own server, one for each admitted Boot, one at each coordinator for the
// proxies of a group, one for the operator.
// It talks to the local Consul with the cluster's management token, which never
// leaves the coordinator.
package tokens
