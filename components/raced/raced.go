// Package raced has the differences of tests under the race detector. Only tests and their helper
// packages import it.
package raced

// Tenth is n, or a tenth of it, rounded up, under the race detector. It is for loops over random
// cases: each case takes up to ten times as long under the detector, and all cases run the same
// code for it. `make test` runs the same loops in full without it.
func Tenth(n int) int {
	if Enabled {
		return (n + 9) / 10
	}
	return n
}
