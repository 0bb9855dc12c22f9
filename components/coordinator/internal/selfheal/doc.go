// Package selfheal starts the coordinators of this cluster that the platform reports as stopped.
// Members are healed by the rollout engine under the Lease. Coordinators need a rule of their own,
// because two stopped coordinators of three leave no quorum, and so no leader and no Lease:
//
//	listing of the own app ──┐
//	Sessions of the overlay ─┼─► Next: one Slot to start, or none ──► platform.Start
//	the known leader ────────┘
//
// A start is the only effect. If two coordinators decide to start the same CVM, the platform refuses
// the second call. No coordinator is updated, replaced, restarted or deleted here.
package selfheal
