// Package carriertest is the contract of [carrier.Session] as tests: what the
// rest of the overlay relies on, whatever carries the bytes. Every carrier runs
// the same suite.
//
//	func TestContract(t *testing.T) { carriertest.Run(t, pair) }
package carriertest
