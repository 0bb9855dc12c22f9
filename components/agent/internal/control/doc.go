// Package control keeps the control sessions with all coordinators: it fetches
// desired state and peers from whichever has the newest, and reports to each.
//
//	Wake (interrupt) ─┐
//	poll 30-60 s ─────┼─► fetch ─► newest Term and version wins ─► handed to the agent
//	report's answer ──┘
//
// Desired state of an older Term than the last seen is not obeyed; the Term
// survives reboots. Cut off, the last desired state stays in force.
package control
