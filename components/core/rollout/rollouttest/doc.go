// Package rollouttest makes inputs of rollout.Decide that are too large to write by hand, for the planner's
// benchmarks.
package rollouttest
