// Package group holds the vocabulary of the domain: what an operator asks for
// (Spec), the stable members of a group (Slots), what a revision is, and what
// is reported about them (Status).
//
// It is pure: no I/O, no clock, no goroutine. It validates and normalises; it
// decides nothing about rollouts (package rollout does).
package group
