// Package backends keeps what workloads say of the backends whose registration they own
// (registration.owner = "workload"): health, the tags that routes go by, a text for people.
//
//	PUT /v1/backends/<name> ── Put ──► Registry ──► report ──► the catalog
//
// A word holds for the backend's TTL. Then the backend's health is not known, and it is no
// longer found, until the workload says something again. It is kept in memory-backed storage
// for the next process of the same Boot, where its time goes on.
package backends
