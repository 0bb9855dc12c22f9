// Package vmmapi is the second front of the local cloud: the JSON RPC of dstack-vmm, an endpoint
// for each host. A host sees its own VMs only. Requests, answers and errors are those of dstack-vmm
// 0.5.11, or of 0.6 where the setting vmm_version says so: each error is 400 with {"error": text}.
//
// The state machine is package cloud's.
package vmmapi
