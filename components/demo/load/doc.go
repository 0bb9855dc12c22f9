// Package load is the measuring writer of the demo and of the end-to-end tests: a closed loop of
// small writes, a journal of the attempted and the acknowledged writes, and figures from that
// journal alone.
//
// Up to three writers run side by side, each with its own table and journal. Direct knows all
// members, Route dials a route, and Pooled dials a route with a pooler. No writer repeats a failed
// write: the next attempt is another write with its own id.
//
// Package load reports four numbers, never one (workload-handover 18.3): the longest interval
// between acknowledged writes, the errors by text, the latency of acknowledged writes, and the
// acknowledged writes that a final read lacks.
package load
