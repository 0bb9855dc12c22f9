// Package carriertest is the contract of [carrier.Session] as tests: the guarantees that
// the rest of the overlay relies on, for every carrier. Every carrier runs the same
// suite.
//
//	func TestContract(t *testing.T) { carriertest.Run(t, pair) }
package carriertest
