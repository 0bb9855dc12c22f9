// Package daemon wires the parts of the local cloud together and runs them in
// the foreground: state directory and its lock, fabric, hypervisor, control
// plane, API and gateway listeners, and the file cloud.json that tells others
// how to reach them.
package daemon
