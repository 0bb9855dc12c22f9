// Package daemon connects the parts of the local cloud and runs them in the foreground: state
// directory and its lock, fabric, hypervisor, control plane, API and gateway listeners, and the
// file cloud.json with their addresses.
package daemon
