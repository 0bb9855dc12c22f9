// Package operation is the durable record of carrying out one Action for one
// Slot, and the pure state machine that advances it.
//
//	DRAINING ──► DRAINED ──► ACTING ──► BOOTING ──► JOINING ──► SETTLING ──► DONE
//	    │           │                      │           │           │
//	    └───────────┴──► ABORTED           └───────────┴───────────┴──► FAILED
//
// The leader writes the record before each effect (R60); a successor resumes
// from the record alone (R70).
//
// The files can be read from the bottom up: record, facts and operation are values; shape, part and readback
// compare the wanted CVM with the listed one; transition and precommit have the moves that all phases share;
// draining, drained, acting and joining have one phase or two each; advance is the entry.
package operation
