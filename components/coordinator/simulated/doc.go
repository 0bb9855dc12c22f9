// Package simulated has the control loop of a coordinator for the simulator and for the tests of
// reconcile: what plans, records, calls the platform and judges specs is what coordinators run,
// with nothing replaced. It stands on the store, the platform and the clock that it is given, and
// is meant to run in a bubble of testing/synctest. Attestation, credentials and the overlay are
// not in it: who is admitted is decided by the Slot's policy from what a Boot says that it is.
package simulated
