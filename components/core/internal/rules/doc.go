// Package rules holds the tests that compare docs/rollout-rules.md and
// docs/comparison.md with the tests that these pages go by.
package rules
