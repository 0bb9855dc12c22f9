// Program testreport says how a run of the tests ended. It reads what gotestsum has kept
// of go test's events in each lane, and prints the slowest packages and tests, every skip with its reason, the
// tests that passed only when they were tried again, what failed outside of tests, and as
// its last line how many tests passed, failed and were skipped. It ends with 1 when
// something failed or was skipped without a reason, or when the run took longer than its budget.
//
//	testreport [-log FILE] [-took 34m -budget 60m] events.json...
package main
