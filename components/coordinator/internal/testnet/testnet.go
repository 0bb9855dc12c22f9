// Package testnet gives a test a network of its own, so that it may use the
// fixed addresses and ports of a CVM. Only tests import it.
package testnet

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// inside names the test that this process runs in a network of its own.
const inside = "CADRE_TEST_INSIDE"

// limit is for the whole run inside: a test that hangs there fails here, with
// its output.
const limit = 3 * time.Minute

// Inside reports whether this process is the one that Isolated runs t in.
func Inside(t *testing.T) bool { return os.Getenv(inside) == t.Name() }

// Isolated runs the calling test again, in a process with its own network
// namespace and nothing but loopback in it. It reports whether this is that
// process; the caller returns when it is not. Without root the test is skipped.
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
