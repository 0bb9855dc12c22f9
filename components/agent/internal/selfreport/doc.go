// Package selfreport keeps what workloads say themselves: of backends whose registration they own
// (registration.owner = "workload"), and of health checks that they answer (ttl).
//
//	PUT /v1/backends/<name> ── Put ──► Registry ──► report ──► the catalog
//	PUT /v1/checks/<name>   ── Put ──► Registry ──► health ──► report
//
// A word holds for its TTL: then nothing is known, until the workload says something again.
// It is kept in memory-backed storage for the next process of the same Boot, where its time
// goes on.
package selfreport
