// Package leasing keeps a session alive and computes how long it is certain to live.
//
// It is the local half of a Lease: the renewal loop, the deadline by the monotonic clock, and the
// context that dies with it. It knows no store; both Consul and the in-memory twin use it, so that
// tests with the twin run the loop that production runs.
package leasing
