// Package rules holds the test that compares docs/rollout-rules.md with the
// tests whose names carry rule ids.
package rules
