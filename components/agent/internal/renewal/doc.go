// Package renewal keeps a Boot's credentials from ending.
//
//	a third to almost half of the shortest life ──► Renew over a control session
//	REATTEST_REQUIRED, a newer policy epoch ──────► Admit: a whole new admission
//	no control session for a while ───────────────► Admit, which finds coordinators
//
// What is held stays in force until something newer is: every failure leaves more
// than half of each life for the next try. The decisions when to ask and what an
// answer means are pure; the loop only waits and calls.
package renewal
