//go:build !race

package raced

// Enabled says whether the race detector watches this program.
const Enabled = false
