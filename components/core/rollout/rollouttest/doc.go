// Package rollouttest makes inputs of rollout.Decide that are too large to be written
// down: what the planner's benchmarks measure.
package rollouttest
