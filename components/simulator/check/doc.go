// Package check judges a run of the simulator by its trace, with one Checker for each promise of
// the reliability bar that a trace can show. A Checker sees only the trace. The same Checkers
// therefore judge any run, including a hand-written one. All are pure.
//
// The type state decodes the trace in one place. A Checker compares each event with the state
// directly before the event.
package check
