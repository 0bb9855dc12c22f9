// Package check judges a run of the simulator by its trace: one Checker for each promise of
// the reliability bar that a trace can show. A Checker sees nothing but the trace, so the same
// ones judge any run, and one that was written by hand. All are pure.
//
// What the trace tells is read in one place, state; a Checker looks at each event beside what
// was so right before it.
package check
