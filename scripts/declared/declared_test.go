package declared

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// row is one line of the table.
type row struct{ step, program, source, why string }

func (r row) isCommand() bool { return !strings.ContainsAny(r.program, "/:") }

func table(t *testing.T) []row {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", root+"/scripts/tools.sh", "list").Output()
	if err != nil {
		t.Fatalf("scripts/tools.sh list: %v", err)
	}
	var rows []row
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			t.Fatalf("not step, program, package and reason: %q", line)
		}
		rows = append(rows, row{f[0], f[1], f[2], strings.Join(f[3:], " ")})
	}
	return rows
}

func TestEachProgramIsDeclaredOnceAStep(t *testing.T) {
	seen := map[[2]string]bool{}
	for _, r := range table(t) {
		if !slices.Contains([]string{"build", "run", "dev", "images", "lock", "clients", "browser", "mixed", "kafka"}, r.step) {
			t.Errorf("%s: no step is called %q", r.program, r.step)
		}
		if k := [2]string{r.step, r.program}; seen[k] {
			t.Errorf("%s: twice in step %s", r.program, r.step)
		} else {
			seen[k] = true
		}
	}
}

// host is the machine's own PATH, also below make.
func host() string {
	if path := os.Getenv("CADRE_HOST_PATH"); path != "" {
		return path
	}
	return os.Getenv("PATH")
}

// machine returns the PATH of this machine with further commands, which nothing declares.
func machine(t *testing.T, commands ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range commands {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir + ":" + host()
}

// found lists which of the commands a target of make finds, with the place of each.
func found(t *testing.T, target, path string, commands []string) map[string]string {
	t.Helper()
	probe := target + ": ; @for c in " + strings.Join(commands, " ") + "; do command -v $$c; done; true"
	cmd := exec.CommandContext(t.Context(), "make", "-s", "--no-print-directory", "-C", root, "--eval", probe, target)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"PATH", "CADRE_HOST_PATH", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}, name)
	}), "PATH="+path)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("make %s: %v", target, err)
	}
	at := map[string]string{}
	for _, line := range strings.Fields(string(out)) {
		at[filepath.Base(line)] = line
	}
	return at
}

func TestMakeFindsDeclaredCommandsOnly(t *testing.T) {
	links, err := filepath.Abs(root + "/.tools/path")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(links + "/run"); err != nil {
		t.Skip("no command is linked yet: run make tools")
	}
	const undeclared = "cadre-undeclared-command"
	rows := table(t)
	// builtin are found in bash itself.
	builtin := []string{"test", "true", "false"}
	var declared []string
	for _, r := range rows {
		if r.isCommand() && (r.step == "build" || r.step == "run") && !slices.Contains(builtin, r.program) {
			declared = append(declared, r.program)
		}
	}
	at := found(t, "probe", machine(t, undeclared), append(declared, undeclared))
	if place, ok := at[undeclared]; ok {
		t.Errorf("make finds %s, which scripts/tools.sh does not declare", place)
	}
	for _, name := range declared {
		if !strings.HasPrefix(at[name], links+"/") {
			t.Errorf("make finds %s at %q, want it below %s", name, at[name], links)
		}
	}
	// Nothing else has been put where make looks.
	for _, step := range []string{"build", "run"} {
		entries, err := os.ReadDir(filepath.Join(links, step))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !slices.ContainsFunc(rows, func(r row) bool { return r.step == step && r.program == e.Name() }) {
				t.Errorf("%s/%s is linked and not declared", step, e.Name())
			}
		}
	}
}

// copyOf makes a repository of nothing but the script, whose results fall into it.
func copyOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"scripts/tools.sh", "go.work"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// bare is the PATH of a machine with the commands that the script calls and the given ones, and
// without git, bubblewrap and apt-get: the script ends after it has linked the commands.
func bare(t *testing.T, commands ...string) string {
	t.Helper()
	path := t.TempDir()
	for _, name := range append(commands, "bash", "dirname", "mkdir", "readlink", "ln", "rm", "sed", "sort", "head") {
		for _, dir := range filepath.SplitList(host()) {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				_ = os.Symlink(filepath.Join(dir, name), filepath.Join(path, name)) // the first one stays
			}
		}
	}
	return path
}

func TestToolsEndsAtItsStartWhereSomethingIsMissing(t *testing.T) {
	dir := copyOf(t)
	path := bare(t, "go")
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "scripts/tools.sh"), "run")
	cmd.Env = []string{"PATH=" + path, "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("it went on:\n%s", out)
	}
	for _, want := range []string{
		"git: names the version of a build", "(Debian package git)",
		"bwrap: the sandbox of each service of a local CVM (Debian package bubblewrap)",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "building") || strings.Contains(string(out), "  dirname:") {
		t.Errorf("it built something, or misses what is there:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, ".tools/bin")); err == nil {
		t.Error("it made the folder of what it builds")
	}
}

func TestToolsForgetsWhatIsNoLongerDeclared(t *testing.T) {
	dir := copyOf(t)
	stale := filepath.Join(dir, ".tools/path/build/cadre-undeclared-command")
	if err := os.MkdirAll(filepath.Dir(stale), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/sh", stale); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "scripts/tools.sh"), "build")
	cmd.Env = append(os.Environ(), "CADRE_HOST_PATH="+host())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Lstat(stale); err == nil {
		t.Error("the link is still there")
	}
	if _, err := os.Stat(filepath.Join(dir, ".tools/path/build/git")); err != nil {
		t.Error(err)
	}
}

// program makes a command that does nothing, and folder with it.
func program(t *testing.T, folder, name string) string {
	t.Helper()
	at := filepath.Join(folder, name)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestToolsLinksTheCompilerBehindItsWrappers, which come first on PATH on many a machine
// and find no compiler on a PATH that has nothing else.
func TestToolsLinksTheCompilerBehindItsWrappers(t *testing.T) {
	for _, c := range []struct {
		name     string
		wrappers []string // in their order on PATH
		compiler bool
	}{
		{"no wrapper", nil, true},
		{"ccache", []string{"ccache"}, true},
		{"all of them", []string{"icecc", "ccache", "distcc"}, true},
		{"a wrapper of nothing", []string{"ccache"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, machine := copyOf(t), t.TempDir()
			var path []string
			for _, name := range c.wrappers {
				wrapper, links := program(t, filepath.Join(machine, "bin"), name), filepath.Join(machine, "lib", name)
				if err := os.MkdirAll(links, 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(wrapper, filepath.Join(links, "gcc")); err != nil {
					t.Fatal(err)
				}
				path = append(path, links)
			}
			want := ""
			if c.compiler {
				// Distributions do this: the plain name links to a versioned one.
				folder := filepath.Join(machine, "compiler")
				want = filepath.Join(folder, "gcc")
				if err := os.Symlink(program(t, folder, "gcc-12"), want); err != nil {
					t.Fatal(err)
				}
				path = append(path, folder)
			}
			path = append(path, bare(t))
			cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "scripts/tools.sh"), "run")
			cmd.Env = []string{"PATH=" + strings.Join(path, ":"), "HOME=" + t.TempDir()}
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("it went on:\n%s", out)
			}
			got, err := os.Readlink(filepath.Join(dir, ".tools/path/run/gcc"))
			if got != want || (err != nil && !os.IsNotExist(err)) {
				t.Errorf("linked %q, %v; want %q", got, err, want)
			}
			if missed := strings.Contains(string(out), "  gcc: "); missed == c.compiler {
				t.Errorf("it says that gcc is missing: %v\n%s", missed, out)
			}
		})
	}
}
