package container

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// await waits for an event that is certain to come.
func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(soon); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			_, stderr := r.said()
			r.t.Fatalf("%s did not come: %s", what, stderr)
		}
	}
}

func TestTheWorkloadWaitsForAdmissionAndHasItsVariables(t *testing.T) {
	r := newRig(t)
	r.hosts = filepath.Join(r.dir, "etc-hosts")
	r.write("etc-hosts", "127.0.0.1 localhost\n")
	r.start(`echo "$CADRE_SLOT $CADRE_META_COLOR"; exit 7`)
	select {
	case <-r.ended:
		t.Fatal("the workload was run before admission")
	case <-time.After(3 * readyPoll):
	}
	r.ready()
	code := r.wait()
	if stdout, stderr := r.said(); code != 7 || stdout != "web-0 it's\nblue\n" {
		t.Errorf("code %d, output %q, %s", code, stdout, stderr)
	}
	want := "127.0.0.1 localhost\n127.50.0.1 web-0 # cadre\n"
	if data, err := os.ReadFile(r.hosts); err != nil || string(data) != want {
		t.Errorf("hosts %q, %v", data, err)
	}
}

func TestInitEndsAsItsWorkloadDoes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 255": 255, "kill -KILL $$": 137, "kill -SEGV $$": 139} {
		r := newRig(t)
		r.ready()
		r.start(script)
		if code := r.wait(); code != want {
			t.Errorf("%s: code %d, want %d", script, code, want)
		}
	}
	r := newRig(t)
	r.ready()
	r.start("true")
	if code := r.wait(); code != 0 {
		t.Fatal(code)
	}
	r = newRig(t)
	r.write("mesh/env", "CADRE_SLOT=web-0\n")
	r.ready()
	r.start("true")
	code := r.wait()
	if _, stderr := r.said(); code != exitFailed || !strings.Contains(stderr, "CADRE_SLOT is not in single quotes") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestSignalsReachTheWorkload(t *testing.T) {
	r := newRig(t)
	r.ready()
	r.start(`for s in HUP USR1 USR2; do trap "echo $s" $s; done; trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done`)
	for _, step := range []struct {
		says string
		send syscall.Signal
	}{{"up", syscall.SIGUSR1}, {"USR1", syscall.SIGHUP}, {"HUP", syscall.SIGTERM}} {
		r.await(step.says, func() bool { stdout, _ := r.said(); return strings.HasSuffix(stdout, step.says+"\n") })
		if err := r.cmd.Process.Signal(step.send); err != nil {
			t.Fatal(err)
		}
	}
	code := r.wait()
	if stdout, _ := r.said(); code != 9 || !strings.Contains(stdout, "USR1") {
		t.Errorf("code %d, output %q", code, stdout)
	}
}

func TestASignalEndsTheWaitForAdmission(t *testing.T) {
	r := newRig(t)
	r.start("true")
	// Caught from the start of Go's runtime or not yet: both end it with this signal.
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.ended:
	case <-time.After(soon):
		t.Fatal("still waiting")
	}
	ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus) //nolint:forcetypeassert // Linux
	if r.code != 143 && (!ws.Signaled() || ws.Signal() != syscall.SIGTERM) {
		t.Errorf("ended with %v", ws)
	}
}

func TestOrphansOfInitAreReaped(t *testing.T) {
	r := newRig(t)
	r.ready()
	r.start("(sh -c 'exit 0' &); (setsid true &); trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
	r.await("the workload is up", func() bool { stdout, _ := r.said(); return stdout == "up\n" })
	r.await("no child of init is dead", func() bool {
		children := 0
		for _, p := range processes() {
			if p.parent == r.cmd.Process.Pid {
				children++
			}
		}
		return children == 2 // the workload and the server
	})
}

// TestTheContainerEndsWithItsCommandServer: without its server init could not separate the
// leftovers of commands.
func TestTheContainerEndsWithItsCommandServer(t *testing.T) {
	r := up(t)
	if _, err := r.do(t.Context(), soon, "exit 0"); err != nil {
		t.Fatal(err)
	}
	for _, p := range processes() {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
		if p.parent == r.cmd.Process.Pid && strings.HasPrefix(string(line), serverRole) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	r.wait()
	if _, stderr := r.said(); !strings.Contains(stderr, "the workload is stopped") {
		t.Errorf("init says %q", stderr)
	}
}

func TestParseEnvRejectsForeignText(t *testing.T) {
	for _, text := range []string{"A", "A=", "A=b\n", "A='b", "A='b'", "A='b' \n", "='b'\n", "A B='c'\n", "A='b'c\n", "A=\"b\"\n"} {
		if got, err := parseEnv(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	got, err := parseEnv("A='b'\nC=''\nD='e'\\''f'\n")
	if want := []variable{{"A", "b"}, {"C", ""}, {"D", "e'f"}}; err != nil || len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("%v, %v", got, err)
	}
}

// TestATT36_AWorkloadOfAnEarlierRevisionRunsNothing: the engine may restore its container in a
// CVM that measured another compose file.
func TestATT36_AWorkloadOfAnEarlierRevisionRunsNothing(t *testing.T) {
	own, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for name, c := range map[string]struct {
		mark, measured string
		code           int
		says           string
	}{
		"its own mark":            {own, own, 3, ""},
		"no mark":                 {"", own, 3, ""},
		"of an earlier revision":  {own, other, exitFailed, "it is of an earlier revision and runs nothing"},
		"an agent without a mark": {own, "", exitFailed, "give the agent's service the same argument"},
		"a mark and more":         {own, own + "\n", exitFailed, "it is of an earlier revision and runs nothing"},
	} {
		r := newRig(t)
		r.mark = c.mark
		if c.measured != "" {
			r.write("mesh/revision-mark", c.measured)
		}
		r.ready()
		r.start("echo ran; exit 3")
		code := r.wait()
		if stdout, stderr := r.said(); code != c.code || (stdout == "ran\n") != (c.code == 3) || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: code %d, output %q, %s", name, code, stdout, stderr)
		}
	}
}
