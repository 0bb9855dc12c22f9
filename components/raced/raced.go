// Package raced has the differences of tests under the race detector. Only tests and their helper
// packages import it.
package raced

// Tenth is n, or a tenth of it, rounded up, where the race detector watches. It is for loops
// over random cases: each case takes up to ten times as long under the detector, and one case
// shows it what all of them do. `make test` runs the same loops in full without it.
func Tenth(n int) int {
	if Enabled {
		return (n + 9) / 10
	}
	return n
}
