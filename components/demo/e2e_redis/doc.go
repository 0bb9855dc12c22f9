// Package e2e_redis proves on a local cloud that a rolling update of Redis with Sentinels, whose adapter is a set of
// commands in the workload's container, costs its writers no acknowledged write and one hand-over of the primary.
package e2e_redis
