// Package testnet gives a test its own network, so that it may use the fixed addresses and ports of
// a CVM. Only tests import it.
package testnet

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// inside names the test that runs in this process with its own network.
const inside = "CADRE_TEST_INSIDE"

// limit bounds the run of the inner process: a hanging test fails here, with its output.
const limit = 3 * time.Minute

// Inside reports whether Isolated started this process for t.
func Inside(t *testing.T) bool { return os.Getenv(inside) == t.Name() }

// Isolated runs the calling test again, in a process with its own network namespace that has only
// loopback. It reports whether this is that process; otherwise the caller returns. Without root the
// test is skipped.
func Isolated(t *testing.T) bool {
	t.Helper()
	if Inside(t) {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a network namespace of its own")
	}
	for _, program := range []string{"unshare", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: it makes the network namespace", program)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "-n", "sh", "-c",
		`ip link set lo up && exec "$0" -test.run="^$1\$" -test.count=1 -test.v`, os.Args[0], t.Name())
	cmd.Env = append(os.Environ(), inside+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("%s", out)
	}
	return false
}
