package provider_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"cadre.dev/terraform-provider/internal/provider"
)

// asProvider makes the test binary be the provider's program.
const asProvider = "CADRE_TEST_AS_PROVIDER"

func TestMain(m *testing.M) {
	if os.Getenv(asProvider) == "" {
		os.Exit(m.Run())
	}
	if err := providerserver.Serve(context.Background(), provider.New("test"), providerserver.ServeOpts{Address: provider.Address}); err != nil {
		os.Exit(1)
	}
}

// folder is a configuration on disk, applied by a program that runs the provider as a
// process of its own.
type folder struct {
	t             *testing.T
	program, path string
	env           []string
	printed       []byte // by all runs so far
}

func newFolder(t *testing.T, program string) *folder {
	t.Helper()
	f := &folder{t: t, program: program, path: t.TempDir()}
	plugins := t.TempDir()
	own, err := os.Executable()
	if err == nil {
		err = os.Symlink(own, filepath.Join(plugins, "terraform-provider-cadre"))
	}
	settings := filepath.Join(plugins, "settings.tfrc")
	if err == nil {
		err = os.WriteFile(settings, []byte("provider_installation {\n  dev_overrides {\n    \"cadre.dev/cadre/cadre\" = \""+plugins+"\"\n  }\n}\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.env = append(os.Environ(), asProvider+"=1", "TF_CLI_CONFIG_FILE="+settings, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_ACC=")
	f.write("providers.tf", "terraform {\n  required_providers {\n    cadre = { source = \"cadre.dev/cadre/cadre\" }\n  }\n}\n")
	return f
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.path, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// command prepares the program; its output has no colours.
func (f *folder) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(f.t.Context(), f.program, args...)
	cmd.Dir, cmd.Env = f.path, f.env
	return cmd
}

// run gives everything that the program printed, in one line where it wrapped, and whether
// it succeeded.
func (f *folder) run(args ...string) (string, bool) {
	f.t.Helper()
	out, err := f.command(append(args, "-no-color")...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Fatal(err)
	}
	f.printed = append(f.printed, out...)
	return unwrap(out), err == nil
}

// must is run that succeeds.
func (f *folder) must(args ...string) string {
	f.t.Helper()
	out, ok := f.run(args...)
	if !ok {
		f.t.Fatalf("%s %s failed:\n%s", filepath.Base(f.program), strings.Join(args, " "), out)
	}
	return out
}

// unwrap takes the frame of diagnostics away and joins what was wrapped in it.
func unwrap(out []byte) string {
	lines := strings.Split(string(out), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "│"))
	}
	return strings.Join(lines, " ")
}
