// Package upgrade decides how the coordinators of a cluster change, from the operator's machine:
//
//	the platform's CVMs ──────────┐
//	each coordinator's own facts ─┼─► Next: one step, with its reasons
//	the wanted content ───────────┘
//
// It is pure. It remembers nothing between two calls, so an interrupted upgrade continues from the
// facts. Followers change first and one at a time; the leader steps
// down and changes last. No step disrupts a coordinator while another one is unwell (decision 34).
package upgrade
