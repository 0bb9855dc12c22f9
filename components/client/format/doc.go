// Package format says in words what a rollout does and what it waits for, the same ones on a
// terminal, in a log and in Terraform's diagnostics.
package format
