package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// run runs a shell text in the sandbox c and returns its output.
func run(t *testing.T, c Config, text string) string {
	t.Helper()
	c.Hostname = "box"
	// Its commands may be in a closed home, like this checkout.
	c.Visible = append(slices.Clone(c.Visible), filepath.SplitList(os.Getenv("PATH"))...)
	if c.Caps == nil {
		c.Caps = defaultCaps
	}
	args, err := Args(c)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("bwrap", append(args, "--", "/bin/sh", "-c", text)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestSandboxShowsMountsAnywhereAndHidesState(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil || os.Getuid() != 0 {
		t.Skip("skipped: needs root and bwrap")
	}
	state := t.TempDir()
	data := filepath.Join(state, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "tool"), []byte("#!/bin/sh\necho tool\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Hide: []string{state}, Visible: []string{bin}, Writable: true, Dir: "/data",
		Mounts: []Mount{
			{Source: data, Target: "/data"},
			{Source: data, Target: "/data/sub/deep"},
			{Source: data, Target: "/var/lib/absent/deep/data", ReadOnly: true},
			{Source: filepath.Join(bin, "tool"), Target: "/var/run/tool"},
			{Source: filepath.Join(bin, "tool"), Target: "/etc/hosts", ReadOnly: true},
			{Target: "/srv/scratch/x", Size: 1 << 20},
			{Source: filepath.Join(bin, "tool"), Target: "/etc/absent/tool"},
			{Source: filepath.Join(bin, "tool"), Target: "/etc/ssl/absent/tool"},
		},
	}
	for text, want := range map[string]string{
		"pwd; hostname": "/data\nbox",
		"echo hi > /data/f && cat /var/lib/absent/deep/data/f":                                    "hi",
		"ls /var/lib | grep -c dpkg":                                                              "1",
		"touch /var/lib/dpkg/x 2>&1 || true":                                                      "touch: cannot touch '/var/lib/dpkg/x': Read-only file system",
		"touch /var/lib/absent/deep/data/x 2>&1 || true":                                          "touch: cannot touch '/var/lib/absent/deep/data/x': Read-only file system",
		bin + "/tool; /run/tool":                                                                  "tool\ntool",
		"/etc/absent/tool; /etc/ssl/absent/tool; ls /etc/ssl/certs | grep -c ca-certificates.crt": "tool\ntool\n1",
		"sh /etc/hosts": "tool",
		"ls " + state + " 2>&1 | grep -vc 'No such file' || true":                                                                                 "0",
		"touch /srv/scratch/x/y /anywhere /tmp/t /run/r /var/tmp/v && echo ok":                                                                    "ok",
		"setpriv --reuid=1000 --regid=1000 --clear-groups -- sh -c 'touch /tmp/u && ls -d /var/lib/absent/deep && grep CapEff /proc/self/status'": "/var/lib/absent/deep\nCapEff:\t0000000000000000",
		"ip route add 1.2.3.4 dev lo 2>&1 || true":                                                                                                "RTNETLINK answers: Operation not permitted",
	} {
		if got := run(t, c, text); got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
	c.Writable = false
	// A tmpfs of the service's own covers a checkout in /tmp no more than ours does.
	c.Mounts, c.Dir = []Mount{{Target: "/tmp"}}, ""
	if got := run(t, c, "setpriv --reuid=1000 --regid=1000 --clear-groups -- "+bin+"/tool; touch /tmp/t && echo ok"); got != "tool\nok" {
		t.Errorf("below a tmpfs: %q", got)
	}
	c.Mounts, c.Dir = nil, ""
	if got := run(t, c, "touch /anywhere 2>&1 || true"); !strings.Contains(got, "Read-only") {
		t.Errorf("read-only root: %q", got)
	}
}

func TestSandboxShowsProgramsInAClosedHome(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil || os.Getuid() != 0 {
		t.Skip("skipped: needs root and bwrap")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp(here, "home-") //nolint:usetesting // a parent of the tests' folder is always covered
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	bin, data := filepath.Join(home, "checkout/bin"), filepath.Join(home, "data")
	for _, dir := range []string{bin, data} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "tool"), []byte("#!/bin/sh\necho tool\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(home); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("the home is not closed: %v, %v", info.Mode(), err)
	}
	c := Config{Visible: []string{bin}, Mounts: []Mount{{Source: data, Target: home + "/volume"}}}
	for text, want := range map[string]string{
		bin + "/tool": "tool",
		"ls " + home:  "checkout\nvolume",
	} {
		if got := run(t, c, "setpriv --reuid=1000 --regid=1000 --clear-groups -- sh -c '"+text+"' 2>/dev/null"); got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
}
