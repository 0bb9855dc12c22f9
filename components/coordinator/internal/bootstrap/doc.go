// Package bootstrap finds out, before anything else starts, which cluster ID of the cluster
// this coordinator belongs to, and holds it to that (core/clusterid says what one is).
//
//	disk knows it ───────────────────────────────────────────► keys, Consul, overlay
//	empty disk ──► ask the others, by evidence: join theirs ──┘        │
//	               coordinator-0, when all others have none: draw one  ▼
//	                                      records: created once, else equal, else halt
//
// The keys of a cluster need its cluster ID, and Consul needs the keys, so coordinators
// agree on it before there is a store: by proving to each other, over first-contact
// streams, what they know. The record in the store is what they are then held to.
package bootstrap
