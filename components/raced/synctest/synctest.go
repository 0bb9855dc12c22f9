// Package synctest is testing/synctest, on one processor under the race detector.
//
// The detector of Go 1.26 keeps one state for all timers of a bubble (unlockAndRun in the runtime's
// time.go). Two processors that run timers of one bubble at the same moment use that state at once:
// the runtime may crash then, in a test without a fault. One processor sees the same races, because
// the detector compares the order of two accesses and not their times. A test that imports
// testing/synctest itself works until it crashes, so the linter rejects that import elsewhere.
package synctest

import (
	"runtime"
	"testing"
	"testing/synctest"

	"cadre.dev/raced"
)

// Test runs f in a bubble, as [synctest.Test] does. Under the race detector the whole process
// has one processor from its first bubble on.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if raced.Enabled {
		runtime.GOMAXPROCS(1)
	}
	synctest.Test(t, f)
}

// Wait is [synctest.Wait].
func Wait() { synctest.Wait() }
