// Package load is the measuring writer of the demo and of the end-to-end tests:
// a closed loop of small writes, a journal of what was attempted and what was
// acknowledged, and figures from that journal alone.
//
// Up to three writers run side by side, each with a table and a journal of its own: one
// that knows all members (Direct), one that dials a route (Route), one that dials a route
// with a pooler (Pooled). None ever tries a failed write again: the next attempt is
// another one, with an id of its own.
//
// It reports four numbers, never one (workload-handover 18.3): the longest
// interval between acknowledged writes, the errors by text, how long acknowledged
// writes took, and acknowledged writes that a final read lacks.
package load
