package provider_test

import (
	"context"
	"errors"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"cadre.dev/terraform-provider/internal/provider"
)

const (
	// asProvider makes the test binary be the provider's program.
	asProvider = "CADRE_TEST_AS_PROVIDER"
	// programAt says where the provider's program was built, to tests in processes of their own.
	programAt = "CADRE_TEST_PROVIDER"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProvider) == "" {
		os.Exit(tests(m))
	}
	if err := providerserver.Serve(context.Background(), provider.New("test"), providerserver.ServeOpts{Address: provider.Address}); err != nil {
		os.Exit(1)
	}
}

// tests runs the tests with a provider without the race detector: each command starts one or more,
// and the detector takes most of the time of a start.
func tests(m *testing.M) int {
	if os.Getenv(programAt) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "provider-")
	if err != nil {
		log.Print(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "terraform-provider-cadre")
	cmd := exec.Command("go", "build", "-race=false", "-o", program, "cadre.dev/terraform-provider/cmd/terraform-provider-cadre")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath") // reuses the compiled packages of `make build`
	if out, err := cmd.CombinedOutput(); err != nil {
		log.Printf("build the provider: %v\n%s", err, out)
		return 1
	}
	if err := os.Setenv(programAt, program); err != nil {
		log.Print(err)
		return 1
	}
	return m.Run()
}

// folder is a configuration on disk, applied by a program that runs the provider as a
// process of its own.
type folder struct {
	t             *testing.T
	program, path string
	plugin        string // links to the provider's program
	env           []string
	printed       []byte // by all runs so far
}

func newFolder(t *testing.T, program string) *folder {
	t.Helper()
	f := &folder{t: t, program: program, path: t.TempDir()}
	plugins := t.TempDir()
	f.plugin = filepath.Join(plugins, "terraform-provider-cadre")
	err := os.Symlink(os.Getenv(programAt), f.plugin)
	settings := filepath.Join(plugins, "settings.tfrc")
	if err == nil {
		err = os.WriteFile(settings, []byte("provider_installation {\n  dev_overrides {\n    \"cadre.dev/cadre/cadre\" = \""+plugins+"\"\n  }\n}\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_ACC=")
	// A run is over before its garbage matters: collection takes half of the time of a plan.
	f.env = append(f.env, "GOGC=off", "GOMEMLIMIT=512MiB")
	f.write("providers.tf", "terraform {\n  required_providers {\n    cadre = { source = \"cadre.dev/cadre/cadre\" }\n  }\n}\n")
	return f
}

// of makes the provider find a cluster by its context file. The test's environment does not have
// the file, since other tests run at the same time.
func (f *folder) of(context string) *folder {
	f.env = append(f.env, "CADRE_CONTEXT="+context)
	return f
}

// watched has the race detector watch the provider, where it watches the test.
func (f *folder) watched() {
	f.t.Helper()
	own, err := os.Executable()
	if err = errors.Join(err, os.Remove(f.plugin), os.Symlink(own, f.plugin)); err != nil {
		f.t.Fatal(err)
	}
	// A race ends the provider, and so the run: no test reads its output.
	f.env = append(f.env, asProvider+"=1", "GORACE=halt_on_error=1")
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

// unwrap removes the frame of diagnostics and joins its wrapped lines.
func unwrap(out []byte) string {
	lines := strings.Split(string(out), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "│"))
	}
	return strings.Join(lines, " ")
}
