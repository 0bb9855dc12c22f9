// Package group holds the vocabulary of the domain: the operator's request (Spec), the stable
// members of a group (Slots), Revisions, and the reported state (Status).
//
// The package is pure: no I/O, no clock, no goroutine. It validates and normalises specs. Package
// rollout decides about rollouts.
package group
