// Package e2edemo runs the path of make demo as a test: the real programs, a real
// Consul, PostgreSQL and Patroni, on a local cloud of its own.
package e2edemo
