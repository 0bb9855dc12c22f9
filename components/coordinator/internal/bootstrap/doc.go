// Package bootstrap determines the cluster ID of this coordinator before any other part starts, and
// then enforces it (see core/clusterid).
//
//	disk has it   ───────────────────────────────────────────► keys, Consul, overlay
//	empty disk ──► ask the others, by evidence: join theirs ──┘        │
//	               coordinator-0, when all others have none:           │
//	               draw one, or take that of a backup                  ▼
//	                                      records: created once by the coordinator that drew the ID,
//	                                      or restored from a backup; else equal, else halt
//
// The keys of a cluster need its cluster ID, and Consul needs the keys. The coordinators therefore
// agree on the cluster ID before there is a store: they prove their cluster IDs to each other over
// first-contact streams. From then on the record in the store must match.
package bootstrap
