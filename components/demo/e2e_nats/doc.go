// Package e2e_nats proves on a local cloud that a rolling update of NATS JetStream, and the loss of a
// server's disk, cost its publishers no acknowledged message and one hand-over of the meta leader.
package e2e_nats
