// Package localcloud drives a local cloud: it starts and stops the cadre-local
// daemon of a state folder and talks to its /_local/ endpoints.
package localcloud
