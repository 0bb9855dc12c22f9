// Package tokens manages Cadre's Consul ACL tokens: one for each coordinator's own server, one for
// each admitted Boot, one at each coordinator for the proxies of a group, one for the operators. It
// uses the local Consul with the cluster's management token, which never leaves the coordinator.
package tokens
