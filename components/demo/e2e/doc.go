// Package e2e holds end-to-end tests: real coordinators, agents and Consul servers
// in CVMs of a local cloud, driven by the cadre binary and the typed client. The
// tests share one cluster and leave it whole for the next one.
package e2e
