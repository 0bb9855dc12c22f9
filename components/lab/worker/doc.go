// Package worker runs the parts of a measurement as processes of their own, so that each
// end's CPU time can be read from outside and each can be in its own network namespace.
// The benchmark's own binary is started again in a role:
//
//	benchmark ── {"role","config"} ──► worker      one line each way, then
//	          ◄─ {"error"} ────────                calls by number, which may
//	          ── {"id","method","args"} ─►         overlap
//	          ◄─ {"id","result","error"} ─
//
// A worker ends when its standard input does: none outlives the benchmark.
package worker
