package cvminit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// procs starts children and reaps orphans without stealing the children's exit
// codes from exec.Cmd.
type procs struct {
	mu   sync.Mutex
	mine map[int]bool
}

func (p *procs) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	p.mine[cmd.Process.Pid] = true
	return nil
}

// wait returns the exit code: 128+n for signal n.
func (p *procs) wait(cmd *exec.Cmd) int {
	err := cmd.Wait()
	p.mu.Lock()
	delete(p.mine, cmd.Process.Pid)
	p.mu.Unlock()
	return exitCode(err)
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return exit.ExitCode()
	default:
		return 125
	}
}

// reapOrphans waits for processes that pid 1 inherited.
func (p *procs) reapOrphans(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-died:
		case <-tick.C:
		}
		p.mu.Lock()
		for _, s := range processes() {
			if s.zombie && s.ppid == 1 && !p.mine[s.pid] {
				_, _ = syscall.Wait4(s.pid, nil, syscall.WNOHANG, nil)
			}
		}
		p.mu.Unlock()
	}
}

// awaitExec waits until the sandbox whose pid 1 is pid has been built, which is
// when its first process runs something else than bubblewrap, or has ended.
// Before that, a visitor would find a half-made file system.
func awaitExec(ctx context.Context, pid int) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		first, alive := 0, false
		for _, s := range processes() {
			if s.pid == pid {
				alive = !s.zombie
			}
			if s.ppid == pid && s.inner == firstChild {
				first = s.pid
			}
		}
		if !alive {
			return
		}
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", first)); first != 0 && err == nil && string(comm) != "bwrap\n" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// firstChild is the pid of a service's first process in its own namespace.
const firstChild = 2

// process is one line of /proc, seen from the CVM.
type process struct {
	pid, ppid int
	inner     int // pid in its innermost namespace
	zombie    bool
}

func processes() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil {
			continue
		}
		s := process{pid: pid}
		for line := range bytes.Lines(raw) {
			key, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
			fields := strings.Fields(value)
			if len(fields) == 0 {
				continue
			}
			switch key {
			case "State":
				s.zombie = fields[0] == "Z"
			case "PPid":
				s.ppid, _ = strconv.Atoi(fields[0])
			case "NSpid":
				s.inner, _ = strconv.Atoi(fields[len(fields)-1])
			}
		}
		out = append(out, s)
	}
	return out
}

// mainProcess is the service's own first process in the sandbox whose pid 1 is
// pid; 0 when it has ended.
func mainProcess(pid int) int {
	for _, s := range processes() {
		if s.ppid == pid && s.inner == firstChild && !s.zombie {
			return s.pid
		}
	}
	return 0
}

// signalAll sends sig to every process of the sandbox whose pid 1 is pid.
func signalAll(pid int, sig syscall.Signal) error {
	ns := func(pid int) string {
		s, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		return s
	}
	want := ns(pid)
	if want == "" {
		return errors.New("it is not running")
	}
	// Twice: a process may have been forked while the first round ran.
	for range 2 {
		for _, s := range processes() {
			if ns(s.pid) == want {
				if err := syscall.Kill(s.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("signal pid %d: %w", s.pid, err)
				}
			}
		}
	}
	return nil
}

// childPID reads bubblewrap's --info-fd.
func childPID(info io.Reader) (int, error) {
	var v struct {
		PID int `json:"child-pid"`
	}
	if err := json.NewDecoder(io.LimitReader(info, 4096)).Decode(&v); err != nil {
		return 0, fmt.Errorf("read sandbox info: %w", err)
	}
	if v.PID <= 1 {
		return 0, errors.New("sandbox info has no pid")
	}
	return v.PID, nil
}
