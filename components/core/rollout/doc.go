// Package rollout plans the steps of a group. Decide takes a spec, the records, one Observation and the time, and
// returns every Action that will be needed. Each Action executes now, or is held with its reasons. Decide does no
// I/O, reads no clock and starts no goroutine: the same input gives the same bytes (R1, R2).
//
//	spec ──┐
//	records┼──► Decide ──► Actions (execute | hold) ──► operate (write-ahead, act, await)
//	seen ──┘        └──► Status, Rollout, Wake
//
// The files can be read from the bottom up; scripts/shape counts the exceptions:
//
//	observation, plan, holdnames       the input and the output as values
//	world, view, condition             one pass: its members, and the evidence about each of them
//	fault, available, membership, ...  one question about a member each
//	holds, quorum, budgetholds, ...    the reasons that hold an Action
//	checks, order, progress, facts     the table of all reasons, the order of candidates, the rollout's state
//	join, status, decide               the pass from its input to its Plan
package rollout
