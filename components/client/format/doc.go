// Package format describes a rollout's steps and holds in words. The terminal, logs and Terraform's
// diagnostics use the same words.
package format
