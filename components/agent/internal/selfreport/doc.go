// Package selfreport keeps the workloads' own reports: of backends whose registration they own
// (registration.owner = "workload"), and of health checks that they answer (ttl).
//
//	PUT /v1/backends/<name> ── Put ──► Registry ──► report ──► the catalog
//	PUT /v1/checks/<name>   ── Put ──► Registry ──► health ──► report
//
// A report holds for its TTL; then the state is unknown until the workload's next report. Reports
// are kept in memory-backed storage for the next process of the same Boot, with their remaining
// time.
package selfreport
