// Package operate carries one Operation out. The state machine is core/operation.Advance. This
// package supplies the facts, records the decision under the Lease, and only then acts on it:
//
//	facts ──► Advance ──► record (fenced) ──► order to the agent | one platform call
//	  ▲                                               │
//	  └──────────── the answer, or a read-back ◄──────┘
//
// A platform call is made only with the intent recorded (R60), by a holder whose Lease outlasts the
// call (R61). It addresses one CVM by its own id (R63, R64), and is never repeated without a
// read-back (R66).
package operate
