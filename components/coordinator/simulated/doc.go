// Package simulated has the control loop of a coordinator for the simulator and for the tests of
// reconcile. It runs the coordinators' real planner, records, platform calls and spec validation on
// a given store, platform and clock, and is meant for a bubble of testing/synctest. Attestation,
// credentials and the overlay are left out: the Slot's policy admits a Boot by its claims alone.
package simulated
