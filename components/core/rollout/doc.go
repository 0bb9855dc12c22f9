// Package rollout decides. Decide takes a spec, the records, one Observation and
// the time, and returns every Action that will be needed, each to be executed
// now or held with its reasons. It does no I/O, reads no clock, starts nothing:
// the same input gives the same bytes (R1, R2).
//
//	spec ──┐
//	records┼──► Decide ──► Actions (execute | hold) ──► operate (write-ahead, act, await)
//	seen ──┘        └──► Status, Rollout, Wake
package rollout
