package driver

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const patroniRecipe = "../../../images/recipes/patroni.hcl"

// launcher writes the image's cadre-patroni where every user may read it.
func launcher(t *testing.T) string {
	t.Helper()
	recipe, err := os.ReadFile(patroniRecipe)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(recipe), `file "usr/local/bin/cadre-patroni"`)
	_, text, begins := strings.Cut(text, "<<-END\n")
	text, _, ends := strings.Cut(text, "    END\n")
	if !found || !begins || !ends {
		t.Fatalf("%s has no cadre-patroni", patroniRecipe)
	}
	var script strings.Builder
	for line := range strings.Lines(text) {
		script.WriteString(strings.TrimPrefix(line, "      "))
	}
	dir, err := os.MkdirTemp("", "cadre-launcher-") //nolint:usetesting // another user must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "cadre-patroni")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(file, []byte(script.String()), 0o755)); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLauncherChangesKnownPatroniOnly tests the launcher that starts the image's Patroni.
func TestLauncherChangesKnownPatroniOnly(t *testing.T) {
	python := filepath.Join(filepath.Dir(tool(t, "patroni/bin/patroni")), "python3")
	recipe, err := os.ReadFile(patroniRecipe)
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`"patroni==([0-9.]+)"`).FindSubmatch(recipe)
	if pinned == nil {
		t.Fatalf("%s pins no Patroni", patroniRecipe)
	}
	const (
		stock = "patroni.postgresql.postmaster 1 patroni.ha module False"
		ours  = "__main__ 0.1 __main__ Clock True"
	)
	for name, tc := range map[string]struct{ version, env, want string }{
		"the image's":  {version: string(pinned[1]), want: ours},
		"set to stock": {version: string(pinned[1]), env: "CADRE_PATRONI=stock", want: stock},
		"another one":  {version: "4.1.99", want: stock},
	} {
		t.Run(name, func(t *testing.T) {
			// Run it as a program and print the result of its changes.
			cmd := exec.CommandContext(t.Context(), python, "-c", `
import runpy, sys
import patroni.version
patroni.version.__version__ = sys.argv[2]
sys.argv = [sys.argv[1], "--version"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit:
    pass
import patroni.ha, patroni.postgresql
from patroni.api import RestApiHandler
from patroni.postgresql.postmaster import PostmasterProcess
print(PostmasterProcess.signal_stop.__module__, patroni.postgresql.STOP_POLLING_INTERVAL,
      patroni.ha.Ha.demote.__module__, type(patroni.ha.time).__name__, hasattr(RestApiHandler, "do_POST_checkpoint"))
`, launcher(t), tc.version)
			if tc.env != "" {
				cmd.Env = append(os.Environ(), tc.env)
			}
			var warned strings.Builder
			cmd.Stderr = &warned
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, warned.String())
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if got := lines[len(lines)-1]; got != tc.want {
				t.Errorf("it has %q, want %q", got, tc.want)
			}
			if unknown := tc.version != string(pinned[1]); unknown != strings.Contains(warned.String(), "WARNING: Patroni "+tc.version+" runs as it is") {
				t.Errorf("it warns %q", warned.String())
			}
		})
	}
}
