// Package load is the measuring writer of the demo and of the end-to-end tests:
// a closed loop of small writes, a journal of what was attempted and what was
// acknowledged, and figures from that journal alone.
//
// It reports four numbers, never one (workload-handover 18.3): the longest
// interval between acknowledged writes, the errors by text, the longest
// acknowledged write, and acknowledged writes that a final read lacks.
package load
