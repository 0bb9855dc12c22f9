package main

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build makes the program as `make build` does.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "exec")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// TestTheProgramNeedsNothingOfTheImage: no loader and no library, and it is made of the
// standard library and this module alone.
func TestTheProgramNeedsNothingOfTheImage(t *testing.T) {
	f, err := elf.Open(build(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read only
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a %s segment", p.Type)
		}
	}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if !strings.HasPrefix(pkg, "cadre.dev/exec/") {
			t.Errorf("it links %s", pkg)
		}
	}
}

func TestWrongUsageIsSaid(t *testing.T) {
	path := build(t)
	mesh := filepath.Dir(path)
	for name, text := range map[string]string{"ready": "", "env": "CADRE_SLOT='web-0'\n", "hosts": ""} {
		if err := os.WriteFile(filepath.Join(mesh, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, 64}, {[]string{"--"}, 64}, {[]string{"true"}, 64}, {[]string{"--hosts", "true"}, 64}, {[]string{"--no", "--", "true"}, 64},
		{[]string{"--user", "--", "true"}, 64}, {[]string{"--user=", "--", "true"}, 64}, {[]string{"--user=no-such-user", "--", "true"}, 70},
		{[]string{"--version"}, 0}, {[]string{"--", "true"}, 0}, {[]string{"--", "sh", "-c", "exit 9"}, 9},
		{[]string{"--", "no-such-program"}, 127}, {[]string{"--", "/"}, 126},
	} {
		out, err := exec.Command(path, c.args...).CombinedOutput()
		code := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		}
		if code != c.want || c.want == 64 && !strings.Contains(string(out), "usage:") {
			t.Errorf("exec %q: code %d, want %d: %s", c.args, code, c.want, out)
		}
	}
}
