package cvminit

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cadre.dev/local/internal/compose"
	"cadre.dev/local/internal/images"
	"golang.org/x/sys/unix"
)

func TestArgvFollowsTheContainerEngine(t *testing.T) {
	img := images.Image{Entrypoint: []string{"entry"}, Command: []string{"default"}}
	for name, tc := range map[string]struct {
		svc  compose.Service
		want []string
	}{
		"image's own":                     {compose.Service{}, []string{"entry", "default"}},
		"command replaces the default":    {compose.Service{Command: []string{"x"}}, []string{"entry", "x"}},
		"empty command clears it":         {compose.Service{Command: []string{}}, []string{"entry"}},
		"entrypoint drops the default":    {compose.Service{Entrypoint: []string{"own"}}, []string{"own"}},
		"entrypoint and command":          {compose.Service{Entrypoint: []string{"own"}, Command: []string{"x"}}, []string{"own", "x"}},
		"empty entrypoint leaves command": {compose.Service{Entrypoint: []string{}, Command: []string{"x"}}, []string{"x"}},
	} {
		u := unit{svc: tc.svc, img: img}
		if got := u.argv(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: argv = %q, want %q", name, got, tc.want)
		}
	}
}

func TestEnvOfTheComposeFileWins(t *testing.T) {
	u := unit{
		svc: compose.Service{Env: map[string]string{"A": "compose"}}, who: account{home: "/home/x"},
		img: images.Image{Path: []string{"/opt/a", "/opt/b"}, Env: map[string]string{"A": "image", "B": "image"}},
	}
	want := []string{"A=compose", "B=image", "HOME=/home/x", "HOSTNAME=web-0", "PATH=/opt/a:/opt/b:" + standardPath}
	if got := u.env("web-0"); !slices.Equal(got, want) {
		t.Errorf("env = %q\nwant  %q", got, want)
	}
}

func TestLookUser(t *testing.T) {
	for text, want := range map[string][2]int{"": {0, 0}, "root": {0, 0}, "4242:4343": {4242, 4343}, "0:root": {0, 0}} {
		a, err := lookUser(hostPeople{}, text, nil)
		if err != nil || a.uid != want[0] || a.gid != want[1] {
			t.Errorf("lookUser(%q) = %+v, %v, want %v", text, a, err, want)
		}
	}
	for _, text := range []string{"no-such-user", "root:no-such-group", "-1", "4294967295", "4294967296", "0:4294967295"} {
		if a, err := lookUser(hostPeople{}, text, nil); err == nil {
			t.Errorf("lookUser(%q) = %+v", text, a)
		}
	}
	if got := strings.Join(account{uid: 1, gid: 2, groups: []int{3, 4}}.setpriv([]string{"KILL"}), " "); got != "setpriv --no-new-privs --inh-caps=-all --ambient-caps=-all --bounding-set=-all,+kill --reuid=1 --regid=2 --groups=3,4 --" {
		t.Errorf("setpriv = %s", got)
	}
}

// TestProgramsOfTheMachineRunAsItsRoot: bubblewrap and nsenter run as the machine's root.
func TestProgramsOfTheMachineRunAsItsRoot(t *testing.T) {
	env := []string{"A=1", "GLIBC_TUNABLES=x", "LD_LIBRARY_PATH=/x", "LD_PRELOAD=/x.so", "PATH=/bin"}
	if got := harmless(env); !slices.Equal(got, []string{"A=1", "PATH=/bin"}) {
		t.Errorf("nsenter gets %q", got)
	}
	cmd, err := bwrap(t.Context(), []string{"--dev", "/dev"}, env, nil, []string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.ExtraFiles[0].Close()
	if len(cmd.Env) != 1 || !strings.HasPrefix(cmd.Env[0], "PATH=") {
		t.Errorf("bwrap gets %q", cmd.Env)
	}
	text, err := io.ReadAll(cmd.ExtraFiles[0])
	if want := "--clearenv\x00--setenv\x00A\x001\x00--setenv\x00GLIBC_TUNABLES\x00x\x00"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the service gets %q, %v", text, err)
	}
	if _, err := bwrap(t.Context(), []string{"--chdir", "/a\x00--bind\x00/\x00/mnt"}, nil, nil, []string{"true"}); err == nil {
		t.Error("an argument brought others with it")
	}
}

func TestMountOptions(t *testing.T) {
	flags, data := mountOptions("size=1m,nosuid,mode=0700,ro")
	if flags != unix.MS_NOSUID|unix.MS_RDONLY || data != "size=1m,mode=0700" {
		t.Errorf("mountOptions = %#x, %q", flags, data)
	}
}

func TestRestartPolicy(t *testing.T) {
	for _, tc := range []struct {
		policy       compose.Restart
		max, n, code int
		want         bool
	}{
		{compose.RestartNo, 0, 0, 1, false}, {compose.RestartAlways, 0, 9, 0, true}, {compose.RestartOnFailure, 0, 9, 1, true},
		{compose.RestartOnFailure, 0, 0, 0, false}, {compose.RestartOnFailure, 2, 1, 1, true}, {compose.RestartOnFailure, 2, 2, 1, false},
	} {
		u := &unit{svc: compose.Service{Restart: tc.policy, MaxRetries: tc.max}, restarts: tc.n}
		if got := restarts(u, tc.code); got != tc.want {
			t.Errorf("%+v: restarts = %t", tc, got)
		}
	}
}

func TestLogRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for range 11 {
		if _, err := l.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int64{path: 1 << 20, path + ".1": 10 << 20} {
		if info, err := os.Stat(name); err != nil || info.Size() != want {
			t.Errorf("%s: %v, %v, want %d bytes", name, info, err, want)
		}
	}
}
