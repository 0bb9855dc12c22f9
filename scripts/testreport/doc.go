// Program testreport reports the result of a test run. It reads the events of go test that
// gotestsum has kept in each lane. It prints the slowest packages and tests, every skip with its
// reason, the tests that passed only in a later attempt, the failures outside of tests, and as its
// last line the number of passed, failed and skipped tests. It exits with 1 when a test failed or
// was skipped without a reason, or when the run took longer than its budget.
//
//	testreport [-log FILE] [-took 34m -budget 60m] events.json...
package main
