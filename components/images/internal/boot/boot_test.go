package boot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const repository = "../../../.."

// TestEachImageRuns calls the program, built without the race detector, under which
// decompression alone takes minutes.
func TestEachImageRuns(t *testing.T) {
	if _, err := os.Stat(filepath.Join(repository, ".out/images")); err != nil {
		t.Skip("no images are built: run make images")
	}
	if err := Sandbox(t.Context()); err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "cadre-images")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "cadre.dev/images/cmd/cadre-images")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, "try", "--root", repository).CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	if !strings.Contains(string(out), "runs") {
		t.Errorf("no image was tried")
	}
	t.Logf("%s", out)
}
