// Package operation is the durable record of carrying out one Action for one
// Slot, and the pure state machine that advances it.
//
//	DRAINING ──► DRAINED ──► ACTING ──► BOOTING ──► JOINING ──► SETTLING ──► DONE
//	    │           │                      │           │           │
//	    └───────────┴──► ABORTED           └───────────┴───────────┴──► FAILED
//
// The leader writes the record before each effect (R60); a successor resumes
// from the record alone (R70).
package operation
