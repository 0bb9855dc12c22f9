// Package secrettest gives tests a place where secrets may be. Only tests import it.
package secrettest

import (
	"os"
	"testing"
)

// MemoryDir is a folder in memory. It ends with the test, which is skipped where there
// is none.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "cadre-test-") //nolint:usetesting // it must be in memory, which t.TempDir is not
	if err != nil {
		t.Skipf("no folder in memory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
