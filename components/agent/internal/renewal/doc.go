// Package renewal renews a Boot's credentials before they expire.
//
//	a third to almost half of the shortest life ──► Renew over a control session
//	REATTEST_REQUIRED, a newer policy epoch ──────► Admit: a whole new admission
//	no control session for a while ───────────────► Admit, which finds coordinators
//
// Credentials stay in force until newer ones replace them: after a failure more than half of each
// life is left for the next try. The schedule and the meaning of an answer are pure; the loop only
// waits and calls.
package renewal
