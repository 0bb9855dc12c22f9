package container

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/exec/call"
)

// soon bounds waits for events that are certain to come.
const soon = 30 * time.Second

// initRole is the test program as the first process of a container:
// mesh, commands, agent's uid, hosts file, user, then the workload.
const initRole = "cadre-exec-test-init"

func TestMain(m *testing.M) {
	if code, ok := Role(os.Args); ok {
		os.Exit(code)
	}
	if len(os.Args) > 7 && os.Args[0] == initRole {
		uid, _ := strconv.Atoi(os.Args[3])
		os.Exit(Init(Config{ServiceMesh: os.Args[1], Commands: os.Args[2], AgentUID: uid, Hosts: os.Args[4], User: os.Args[5], Mark: os.Args[6]}, os.Args[7:]))
	}
	os.Exit(m.Run())
}

// rig is one container without namespaces.
type rig struct {
	t                                      *testing.T
	dir, mesh, commands, hosts, user, mark string
	agentUID                               int
	// init's own credentials; nil for the test's.
	as       *syscall.Credential
	files    []*os.File
	out, err *os.File
	cmd      *exec.Cmd
	ended    chan struct{}
	code     int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{t: t, dir: dir, mesh: filepath.Join(dir, "mesh"), commands: filepath.Join(dir, "c"), agentUID: os.Getuid(), ended: make(chan struct{})}
	for _, d := range []string{r.mesh, r.commands} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.write("mesh/env", "CADRE_SLOT='web-0'\nCADRE_META_COLOR='it'\\''s\nblue'\n")
	r.write("mesh/hosts", "127.50.0.1 web-0\n")
	return r
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// replace is how the agent writes.
func (r *rig) replace(name, text string) {
	r.t.Helper()
	r.write(name+".new", text)
	if err := os.Rename(filepath.Join(r.dir, name+".new"), filepath.Join(r.dir, name)); err != nil {
		r.t.Fatal(err)
	}
}

// share lets other users reach the rig's files.
func (r *rig) share() {
	r.t.Helper()
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o755)
		} else if err == nil {
			err = os.Chmod(path, 0o644)
		}
		return err
	})
	for dir := filepath.Dir(r.dir); err == nil && dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ready() { r.write("mesh/ready", "") }

// start runs init with a shell as its workload.
func (r *rig) start(script string) {
	r.t.Helper()
	r.cmd = exec.Command("/proc/self/exe")
	r.cmd.Args = []string{initRole, r.mesh, r.commands, strconv.Itoa(r.agentUID), r.hosts, r.user, r.mark, "sh", "-c", script}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.as}
	r.cmd.ExtraFiles, r.cmd.Dir = r.files, r.dir
	r.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // else each process ends a second late
	// Files, not pipes: the test would wait for pipes as long as any process has them.
	var errs [2]error
	r.out, errs[0] = os.Create(filepath.Join(r.dir, "stdout"))
	r.err, errs[1] = os.Create(filepath.Join(r.dir, "stderr"))
	if err := errors.Join(errs[:]...); err != nil {
		r.t.Fatal(err)
	}
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.err
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait()
		r.code = r.cmd.ProcessState.ExitCode()
	}()
	r.t.Cleanup(func() {
		_ = r.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-r.ended:
		case <-time.After(soon):
			_ = r.cmd.Process.Kill()
			r.t.Error("init did not end")
		}
		_ = errors.Join(r.out.Close(), r.err.Close())
		// In a container it ends with its init; here it sees that a moment later.
		r.await("the server's end", func() bool { return !r.serverRuns() })
	})
}

func (r *rig) wait() int {
	r.t.Helper()
	select {
	case <-r.ended:
		return r.code
	case <-time.After(soon):
		r.t.Fatal("init did not end")
		return 0
	}
}

// up is a container that takes commands; its workload waits for a signal.
func up(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.ready()
	r.start("exec sleep 600")
	return r
}

// do runs a shell script as a command, once the container takes commands.
func (r *rig) do(ctx context.Context, limit time.Duration, script string) (call.Reply, error) {
	r.t.Helper()
	req := call.Request{Argv: []string{"sh", "-c", script}, Env: []string{"CADRE_HOOK=h"}, Time: limit}
	for end := time.Now().Add(soon); ; {
		reply, err := call.Do(ctx, r.commands, req)
		if !errors.Is(err, call.ErrNotThere) || time.Now().After(end) {
			return reply, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// holder is a pipe: each live process of a command keeps its other end open.
type holder struct {
	path string
	file *os.File
}

func newHolder(t *testing.T, dir string) *holder {
	t.Helper()
	path := filepath.Join(dir, "held")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Not for reading alone: that would be at its end before the command has opened it.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &holder{path, f}
}

// begun waits until the command has written its first line.
func (h *holder) begun(t *testing.T) {
	t.Helper()
	_ = h.file.SetReadDeadline(time.Now().Add(soon))
	for {
		n, err := h.file.Read(make([]byte, 1))
		if n == 1 {
			return
		}
		if !errors.Is(err, io.EOF) { // no process has opened it yet
			t.Fatalf("the command did not begin: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// free fails unless all processes have closed the pipe within d.
func (h *holder) free(t *testing.T, d time.Duration) {
	t.Helper()
	_ = h.file.SetReadDeadline(time.Now().Add(d))
	if _, err := io.ReadAll(h.file); err != nil {
		t.Errorf("something of the command lives on: %v", err)
	}
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

func (r *rig) serverRuns() bool {
	for _, p := range processes() {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
		if strings.HasPrefix(string(line), serverRole+"\x00"+r.commands+"\x00") {
			return true
		}
	}
	return false
}

func (r *rig) said() (stdout, stderr string) {
	out, _ := os.ReadFile(r.out.Name())
	err, _ := os.ReadFile(r.err.Name())
	return string(out), string(err)
}
