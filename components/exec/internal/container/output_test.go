package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/exec/call"
	"cadre.dev/exec/logring"
)

// keeping is a rig whose agent asks for the output.
func keeping(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.write("c/"+call.KeepLogsName, "")
	r.ready()
	return r
}

// logs returns the output that the container gives, once it serves.
func (r *rig) logs(ctx context.Context, req call.LogRequest, take func(uint64, []byte) error) error {
	r.t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(2 * time.Millisecond) {
		err := call.Logs(ctx, r.commands, req, take)
		if !errors.Is(err, call.ErrNotThere) || time.Now().After(end) {
			return err
		}
	}
}

func (r *rig) kept(lines int) string {
	r.t.Helper()
	text := ""
	err := call.ErrBusy
	for errors.Is(err, call.ErrBusy) {
		text = ""
		err = r.logs(r.t.Context(), call.LogRequest{Lines: lines}, func(_ uint64, data []byte) error {
			text += string(data)
			return nil
		})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// TestTheOutputIsKeptAndPassedOn: both descriptors reach the container's own ones unchanged, and the
// agent reads the last part of both. The output of a restarted workload continues the earlier one.
func TestTheOutputIsKeptAndPassedOn(t *testing.T) {
	r := keeping(t)
	r.start(`echo out; echo err >&2; printf 'no\0newline'; echo run >> runs; trap 'exit 9' TERM; while :; do sleep 0.01; done`)
	r.await("the run", func() bool { return len(r.runs()) == 1 })
	r.await("the whole output", func() bool { return strings.Contains(r.kept(0), "no\x00newline") })
	if got := r.kept(0); !strings.Contains(got, "out\n") || !strings.Contains(got, "err\n") {
		t.Errorf("kept %q", got)
	}
	if err := r.restart(soon); err != nil {
		t.Fatal(err)
	}
	r.await("the second run", func() bool { return len(r.runs()) == 2 })
	r.await("the second run's output", func() bool { return strings.Count(r.kept(0), "newline") == 2 })
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	if code := r.wait(); code != 9 {
		t.Errorf("ended with %d", code)
	}
	out, err := r.said()
	if out != "out\nno\x00newlineout\nno\x00newline" || err != "err\nerr\n" {
		t.Errorf("stdout %q, stderr %q", out, err)
	}
}

// TestNothingOfTheLastOutputIsLost: the container ends with its workload, and after the workload's
// last byte. A leftover process that holds the pipe does not delay it.
func TestNothingOfTheLastOutputIsLost(t *testing.T) {
	const size = 3 << 20
	r := keeping(t)
	r.start(fmt.Sprintf(`sleep 600 & echo $! > left; head -c %d /dev/zero | tr '\0' x; echo end >&2; exit 7`, size))
	if code := r.wait(); code != 7 {
		t.Errorf("ended with %d", code)
	}
	var pid int
	left, _ := os.ReadFile(filepath.Join(r.dir, "left"))
	if _, err := fmt.Sscan(string(left), &pid); err == nil && pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if out, err := r.said(); len(out) != size || err != "end\n" {
		t.Errorf("%d bytes of standard output, standard error %q", len(out), err)
	}
}

// TestAStuckReaderDoesNotHoldTheServiceUp, and it learns how much it has missed.
func TestAStuckReaderDoesNotHoldTheServiceUp(t *testing.T) {
	r := keeping(t)
	r.start(`until [ -e go ]; do sleep 0.01; done; head -c 8388608 /dev/zero | tr '\0' x; echo; echo done > written; exec sleep 600`)
	begun, written := make(chan struct{}), make(chan struct{})
	type sum struct{ got, dropped uint64 }
	result := make(chan sum, 1)
	enough := errors.New("enough")
	go func() {
		var s sum
		err := r.logs(t.Context(), call.LogRequest{Follow: true}, func(dropped uint64, data []byte) error {
			if s.got == 0 {
				close(begun)
				<-written
			}
			s.got, s.dropped = s.got+uint64(len(data)), s.dropped+dropped
			if s.got+s.dropped >= 8<<20+1 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) {
			t.Error(err)
		}
		result <- s
	}()
	// A reader that waits gets its first piece when the workload writes.
	r.await("the socket", func() bool { _, err := os.Stat(filepath.Join(r.commands, call.LogSocketName)); return err == nil })
	r.write("go", "")
	<-begun
	r.await("the service's end of writing", func() bool { _, err := os.Stat(filepath.Join(r.dir, "written")); return err == nil })
	close(written)
	if s := <-result; s.dropped == 0 || s.got > 3*logring.Size+1<<20 {
		t.Errorf("read %d, dropped %d", s.got, s.dropped)
	}
}

func TestWithoutTheAgentsRequestNothingIsKept(t *testing.T) {
	r := up(t)
	if reply, err := r.do(t.Context(), soon, "exit 0"); err != nil || reply.End != call.Exited {
		t.Fatal(reply, err)
	}
	if err := call.Logs(t.Context(), r.commands, call.LogRequest{}, nil); !errors.Is(err, call.ErrNotThere) {
		t.Errorf("the output is given: %v", err)
	}
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", r.cmd.Process.Pid))
	if err != nil || link != filepath.Join(r.dir, "stdout") {
		t.Errorf("init has %s, %v", link, err)
	}
}

// Only the agent's user reads the output, and only so many readers at once.
func TestReadersOfTheOutputAreBounded(t *testing.T) {
	r := keeping(t)
	r.start("echo line; exec sleep 600")
	r.await("the line", func() bool { return r.kept(0) == "line\n" })
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	ended := make(chan error, maxLogReaders)
	for range maxLogReaders {
		accepted := make(chan struct{})
		go func() {
			for { // the place of an earlier reader may not be free yet
				err := r.logs(ctx, call.LogRequest{Follow: true}, func(uint64, []byte) error { close(accepted); return nil })
				if !errors.Is(err, call.ErrBusy) {
					ended <- err
					return
				}
			}
		}()
		<-accepted
	}
	if err := r.logs(t.Context(), call.LogRequest{}, nil); !errors.Is(err, call.ErrBusy) {
		t.Errorf("one reader more: %v", err)
	}
	cancel(over)
	for range maxLogReaders {
		if err := <-ended; !errors.Is(err, over) {
			t.Error(err)
		}
	}
	r.await("a free place", func() bool {
		got := ""
		err := r.logs(t.Context(), call.LogRequest{}, func(_ uint64, data []byte) error { got += string(data); return nil })
		if err != nil && !errors.Is(err, call.ErrBusy) {
			t.Fatal(err)
		}
		return got == "line\n"
	})
}

func TestAnotherUserReadsNoOutput(t *testing.T) {
	r := newRig(t)
	r.agentUID++
	r.write("c/"+call.KeepLogsName, "")
	r.ready()
	r.start("echo line; exec sleep 600")
	if err := r.logs(t.Context(), call.LogRequest{}, nil); !errors.Is(err, call.ErrBusy) {
		t.Error(err)
	}
	r.await("the refusal", func() bool { _, text := r.said(); return strings.Contains(text, "calls come from the agent") })
}

// TestACommandsOutputIsStreamed within its bound, and the command ends with its caller.
func TestACommandsOutputIsStreamed(t *testing.T) {
	r := up(t)
	stream := func(script string, take func([]byte) error) (call.Reply, error) {
		req := call.Request{Argv: []string{"sh", "-c", script}, Time: soon}
		for end := time.Now().Add(soon); ; time.Sleep(2 * time.Millisecond) {
			reply, err := call.Stream(t.Context(), r.commands, req, take)
			if !errors.Is(err, call.ErrNotThere) || time.Now().After(end) {
				return reply, err
			}
		}
	}
	text := ""
	reply, err := stream("echo one; echo two >&2; exit 4", func(data []byte) error { text += string(data); return nil })
	if err != nil || reply.End != call.Exited || reply.Code != 4 || text != "one\ntwo\n" || len(reply.Output) > 0 {
		t.Errorf("%+v, %v, %q", reply, err, text)
	}
	got := 0
	reply, err = stream("head -c 3000000 /dev/zero", func(data []byte) error { got += len(data); return nil })
	if err != nil || reply.Code != 0 || got != call.StreamLimit || reply.Dropped != 3000000-call.StreamLimit {
		t.Errorf("%+v, %v, %d bytes", reply, err, got)
	}
	h := newHolder(t, r.dir)
	enough := errors.New("enough")
	_, err = stream("exec 9>"+h.path+"; echo begun; sleep 600", func([]byte) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	h.free(t, soon)
}
