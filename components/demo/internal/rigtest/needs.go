// Package rigtest has the common parts of the tests of real clusters.
package rigtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Needs skips a test of a real cluster where it cannot run, with the reason and the way out,
// and returns the checkout's root. The test's package is two folders below components.
// commands are looked for on PATH, built in the checkout's bin.
func Needs(t testing.TB, commands, built []string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		if _, err := exec.LookPath(command); err != nil {
			t.Skipf("%s is not installed: run make tools", command)
		}
	}
	for _, program := range built {
		if _, err := os.Stat(filepath.Join(root, "bin", program)); err != nil {
			t.Skipf("bin/%s is missing: run make build", program)
		}
	}
	if _, err := os.Stat(filepath.Join(root, ".out/images/index.json")); err != nil {
		t.Skip("there are no images: run make images")
	}
	return root
}
