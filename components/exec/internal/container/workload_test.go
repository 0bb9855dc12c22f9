package container

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/exec/call"
)

// runs are the lines that runs of a workload wrote, one each.
func (r *rig) runs() []string {
	data, _ := os.ReadFile(filepath.Join(r.dir, "runs"))
	if len(data) == 0 {
		return nil
	}
	return lines(string(data))
}

func (r *rig) restart(stop time.Duration) error {
	r.t.Helper()
	r.await("the socket", func() bool { _, err := os.Stat(filepath.Join(r.commands, call.SocketName)); return err == nil })
	// The socket exists a moment before init listens.
	for end := time.Now().Add(soon); ; time.Sleep(2 * time.Millisecond) {
		if err := call.Restart(r.t.Context(), r.commands, stop); !errors.Is(err, call.ErrNotThere) || time.Now().After(end) {
			return err
		}
	}
}

// TestTheWorkloadIsRestarted in the same container, with the present environment, and without any
// process of the previous run.
func TestTheWorkloadIsRestarted(t *testing.T) {
	r := newRig(t)
	left := newHolder(t, r.dir)
	r.ready()
	// The leftover ignores termination signals, in a session of its own.
	r.start(`if [ -e runs ]; then echo "$CADRE_SLOT" >> runs; exec sleep 600; fi
		echo "$CADRE_SLOT" >> runs
		trap 'echo bye >> runs; exit 0' TERM
		setsid sh -c 'trap "" TERM; echo x; while :; do sleep 1; done' > "` + left.path + `" &
		while :; do sleep 0.01; done`)
	left.begun(t)
	r.replace("mesh/env", "CADRE_SLOT='web-1'\n")
	if err := r.restart(soon); err != nil {
		t.Fatal(err)
	}
	left.free(t, soon)
	r.await("the new run", func() bool { return len(r.runs()) == 3 })
	if got := strings.Join(r.runs(), " "); got != "web-0 bye web-1" {
		t.Errorf("runs %q", got)
	}
	if reply, err := r.do(t.Context(), soon, "exit 3"); err != nil || reply.End != call.Exited || reply.Code != 3 {
		t.Errorf("a command after that: %+v, %v", reply, err)
	}
	select {
	case <-r.ended:
		t.Error("the container ended")
	default:
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	if code := r.wait(); code != exitSignalBase+int(syscall.SIGTERM) {
		t.Errorf("ended with %d", code)
	}
}

// A removed variable is unset for the next run, and for commands after it.
func TestAVariableThatIsGoneIsUnset(t *testing.T) {
	r := newRig(t)
	r.ready()
	// The last line of the first value, by the shell alone.
	r.start(`color="${CADRE_META_COLOR-none}"; echo "${color##*
}/${CADRE_META_SIZE-none}/$CADRE_SLOT" >> runs; exec sleep 600`)
	r.await("the first run", func() bool { return len(r.runs()) == 1 })
	r.replace("mesh/env", "CADRE_SLOT='web-1'\nCADRE_META_SIZE='1'\n")
	if err := r.restart(soon); err != nil {
		t.Fatal(err)
	}
	r.await("the new run", func() bool { return len(r.runs()) == 2 })
	if got := strings.Join(r.runs(), " "); got != "blue/none/web-0 none/1/web-1" {
		t.Errorf("runs %q", got)
	}
	reply, err := r.do(t.Context(), soon, `echo "${CADRE_META_COLOR-none}/${CADRE_META_SIZE-none}/$CADRE_SLOT"`)
	if got := strings.TrimSpace(string(reply.Output)); err != nil || got != "none/1/web-1" {
		t.Errorf("a command after that has %q, %v", got, err)
	}
}

// TestAHungWorkloadIsKilled once its time is up.
func TestAHungWorkloadIsKilled(t *testing.T) {
	r := newRig(t)
	r.ready()
	// A real container takes its last run along; the test must kill it.
	t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(r.dir, "pid"))
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	r.start(`trap "" TERM; echo $$ > pid; echo run >> runs; while :; do sleep 0.01; done`)
	r.await("the first run", func() bool { return len(r.runs()) == 1 })
	if err := r.restart(50 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	r.await("the next run", func() bool { return len(r.runs()) == 2 })
	if err := r.restart(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	r.await("one more run", func() bool { return len(r.runs()) == 3 })
	_ = r.cmd.Process.Signal(syscall.SIGKILL) // as the engine does when the container does not end
	r.wait()
}

// TestNoRestartFollowsTheContainersEnd: a workload that is slow to end after the container's stop
// is not restarted meanwhile. A signal for a reload does not prevent a restart.
func TestNoRestartFollowsTheContainersEnd(t *testing.T) {
	for _, stop := range stops {
		t.Run(stop.String(), func(t *testing.T) {
			r := newRig(t)
			r.ready()
			r.start(`trap 'echo reload >> runs' HUP; for s in TERM INT QUIT; do trap 'echo asked >> runs; until [ -e go ]; do sleep 0.01; done; exit 7' $s; done
				echo run >> runs; while :; do sleep 0.01; done`)
			r.await("the run", func() bool { return len(r.runs()) == 1 })
			_ = r.cmd.Process.Signal(syscall.SIGHUP)
			r.await("the reload", func() bool { return len(r.runs()) == 2 })
			r.write("go", "")
			if err := r.restart(soon); err != nil {
				t.Errorf("a restart after a reload: %v", err)
			}
			r.await("the next run", func() bool { return len(r.runs()) == 4 })
			if err := os.Remove(filepath.Join(r.dir, "go")); err != nil {
				t.Fatal(err)
			}
			_ = r.cmd.Process.Signal(stop)
			r.await("the end is asked for", func() bool { return len(r.runs()) == 5 })
			if err := r.restart(soon); err == nil || !strings.Contains(err.Error(), "the container ends") {
				t.Errorf("a restart after that: %v", err)
			}
			r.write("go", "")
			if code := r.wait(); code != 7 {
				t.Errorf("ended with %d", code)
			}
			if got := strings.Join(r.runs(), " "); got != "run reload asked run asked" {
				t.Errorf("runs %q", got)
			}
		})
	}
}

// TestTheContainersEndGoesBeforeARestart: a stop of the container during a restart ends the
// container.
func TestTheContainersEndGoesBeforeARestart(t *testing.T) {
	r := newRig(t)
	r.ready()
	r.start(`trap 'echo asked >> runs' TERM; echo run >> runs; until [ -e go ]; do sleep 0.01; done; exit 7`)
	r.await("the run", func() bool { return len(r.runs()) == 1 })
	done := make(chan error, 1)
	go func() { done <- r.restart(soon) }()
	r.await("the end of the run is asked for", func() bool { return len(r.runs()) == 2 })
	if err := r.restart(soon); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second restart during the first: %v", err)
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	r.await("the container's end is asked for", func() bool { return len(r.runs()) == 3 })
	r.write("go", "")
	if code := r.wait(); code != 7 {
		t.Errorf("ended with %d", code)
	}
	if err := <-done; err == nil {
		t.Error("a missing restart is reported as done")
	}
	if got := strings.Join(r.runs(), " "); got != "run asked asked" {
		t.Errorf("runs %q", got)
	}
}

func TestARestartCarriesNoCommand(t *testing.T) {
	for _, req := range []call.Request{
		{Restart: true},
		{Restart: true, Time: time.Second, Argv: []string{"x"}},
		{Restart: true, Time: time.Second, Env: []string{"CADRE_X=1"}},
	} {
		if err := req.Check(); err == nil {
			t.Errorf("%+v is taken", req)
		}
	}
	if err := call.Restart(t.Context(), t.TempDir(), call.MaxStop+1); err == nil {
		t.Error("a workload is given more than the longest time")
	}
}
