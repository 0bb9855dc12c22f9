// Package drivercheck holds a driver, or an adapter of the contract cadre.dev/core/adapter, to the
// promises that the agent relies on: cadre-agent driver check. Only the named destructive parts change
// the workload.
package drivercheck
