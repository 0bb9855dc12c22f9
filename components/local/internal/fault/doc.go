// Package fault makes an HTTP API misbehave on request and keeps a log of the
// calls it got, so that a test can lose an answer and then prove that the caller
// did not act twice.
package fault
