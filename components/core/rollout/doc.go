// Package rollout plans the steps of a group. Decide takes a spec, the records, one Observation and the time, and
// returns every Action that will be needed. Each Action executes now, or is held with its reasons. Decide does no
// I/O, reads no clock and starts no goroutine: the same input gives the same bytes (R1, R2).
//
//	spec ──┐
//	records┼──► Decide ──► Actions (execute | hold) ──► operate (write-ahead, act, await)
//	seen ──┘        └──► Status, Rollout, Wake
package rollout
