// Package operate carries one Operation out. The state machine is
// core/operation.Advance; this package feeds it facts, records what it says
// under the Lease, and only then does what it asks for:
//
//	facts ──► Advance ──► record (fenced) ──► order to the agent | one platform call
//	  ▲                                               │
//	  └──────────── the answer, or a read-back ◄──────┘
//
// A platform call is made only with the intent recorded (R60), by a holder whose
// Lease outlasts the call (R61), for one CVM named by its own id (R63, R64), and
// never again without a read-back (R66).
package operate
