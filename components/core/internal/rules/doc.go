// Package rules holds the tests that compare docs/evidence/rollout-rules.md and
// docs/evidence/comparison.md with the tests that these pages go by.
package rules
