package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/attest/attestsim"
)

// play reads args and runs the agent in this process.
func play(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) int {
	s, code, done := read(args, getenv, stderr)
	if done {
		return code
	}
	return run(ctx, s, getenv)
}

// inputs are the names of every flag and every variable that the agent reads.
func inputs(t *testing.T) (flags, env []string) {
	t.Helper()
	var usage bytes.Buffer
	getenv := func(name string) string { env = append(env, name); return "" }
	if code := play(context.Background(), []string{"-help"}, getenv, &usage); code != 0 {
		t.Fatalf("help: %d", code)
	}
	for _, m := range regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(usage.String(), -1) {
		flags = append(flags, m[1])
	}
	if len(flags) < 10 || len(env) < 4 {
		t.Fatalf("flags %v, variables %v", flags, env)
	}
	return flags, env
}

// An unmeasured trust file ends the agent, with any other setting of the attacker.
func TestATT02_ATT17_NoFlagAndNoVariableAddsARoot(t *testing.T) {
	w, mallory := agenttest.NewWorld(t), agenttest.NewWorld(t)
	socket, _ := w.Guest(t, agenttest.WorkerAppID, 1, attestsim.Faults{})
	theirs := agenttest.TrustFile(t, mallory.Trust())
	root := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(root, mallory.Cloud.RootPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir) // a folder that is called "true" is made here
	args := func(extra ...string) []string {
		return append([]string{
			"-trust-file=" + theirs, "-dstack-socket=" + socket, "-gateway-domain=gw.test", "-gateway-address=127.0.0.1:1", "-consul=", "-xds=", "-exec-binary=",
			"-state-dir=" + dir + "/s", "-run-dir=" + dir + "/r", "-mesh-dir=" + dir + "/m", "-api=127.0.0.1:0", "-listen=127.0.0.1:0",
		}, extra...)
	}
	refused := func(what string, getenv func(string) string, extra ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var log bytes.Buffer
		code := play(ctx, args(extra...), getenv, &log)
		// 2: the value is not even of the right form.
		if code == 0 || code == 1 && !strings.Contains(log.String(), "CONFIG_UNAUTHENTICATED") && strings.Contains(log.String(), "agent started") {
			t.Errorf("%s: exit code %d\n%s", what, code, log.String())
		}
	}
	none := func(string) string { return "" }
	refused("nothing else", none)
	flags, env := inputs(t)
	for _, value := range []string{root, theirs, string(mallory.Cloud.RootPEM()), "true"} {
		for _, name := range flags {
			// The socket is where own evidence comes from; a flag of it is measured.
			if !slices.Contains([]string{"trust-file", "dstack-socket", "help", "h", "version"}, name) {
				refused("--"+name, none, "-"+name+"="+value)
			}
		}
		for _, name := range env {
			refused(name, func(asked string) string {
				if asked == name {
					return value
				}
				return ""
			})
		}
	}
}

// The released program holds no simulated manufacturer.
func TestATT02_SUP03_TheProgramHoldsNoTestRoot(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	path := filepath.Join(t.TempDir(), "cadre-agent")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if _, err := buildinfo.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range attestsim.Marks() {
		if bytes.Contains(program, []byte(text)) {
			t.Errorf("the program contains %q", text)
		}
	}
	deps, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(deps)) {
		if strings.Contains(pkg, "attestsim") || strings.HasSuffix(pkg, "agenttest") || pkg == "testing" {
			t.Errorf("the program links %s", pkg)
		}
	}
}

func TestANegativeNumberOfProcessorsIsRefused(t *testing.T) {
	var out bytes.Buffer
	code := play(t.Context(), []string{"-processors=-1"}, func(string) string { return "" }, &out)
	if code != 2 || !strings.Contains(out.String(), "-processors -1: give a positive number") {
		t.Errorf("code %d: %s", code, out.String())
	}
}
