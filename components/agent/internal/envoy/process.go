package envoy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a running Envoy, of this worker or an earlier one. Its pid cannot be reused.
type process struct {
	pid int
	fd  *os.File // a pidfd
	// ended is closed when the process has ended, and how then has the cause; or after release.
	ended chan struct{}
	how   string
}

// start runs an Envoy that has lock for as long as it lives. It gets no environment, and no
// signal when this process ends, unless it is mortal. lock is closed here.
func start(argv []string, at folder, lock *os.File, mortal bool) (*process, error) {
	defer lock.Close() //nolint:errcheck // the child has its own copy, or failed to start
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close() //nolint:errcheck // the child has it
	out, err := at.writer()
	if err != nil {
		return nil, err
	}
	defer unix.Close(out) //nolint:errcheck // as above
	sys := &syscall.SysProcAttr{Setsid: true}
	if mortal {
		sys.Pdeathsig = syscall.SIGKILL
	}
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: string(at), Env: []string{},
		Files: []uintptr{null.Fd(), uintptr(out), uintptr(out), lock.Fd()},
		Sys:   sys,
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	p, err := open(pid) // it is our child and not waited for: the pid is its own
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		return nil, err
	}
	go p.wait()
	return p, nil
}

// open holds on to pid; wait must run then.
func open(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open a pidfd of process %d: %w", pid, err)
	}
	return &process{pid: pid, fd: os.NewFile(uintptr(fd), "pidfd"), ended: make(chan struct{})}, nil
}

// wait returns when the process is over or released. No thread waits with it.
func (p *process) wait() {
	defer close(p.ended)
	p.how = "it ended"
	raw, err := p.fd.SyscallConn()
	if err != nil {
		p.how = err.Error()
		return
	}
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	if err != nil {
		return // released
	}
	_ = p.fd.Close()
	var status syscall.WaitStatus
	if got, err := syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil); err == nil && got == p.pid {
		if p.how = fmt.Sprintf("it ended with exit status %d", status.ExitStatus()); status.Signaled() {
			p.how = "it ended by signal: " + status.Signal().String()
		}
	}
}

// release leaves the process alone from now on.
func (p *process) release() { _ = p.fd.Close() }

func (p *process) signal(s syscall.Signal) {
	raw, err := p.fd.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), s, nil, 0) })
}

// over waits for the end until ctx ends.
func (p *process) over(ctx context.Context) bool {
	select {
	case <-p.ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// runs reports whether pid runs this program with these arguments.
func runs(pid int, argv []string) bool {
	at := filepath.Join("/proc", fmt.Sprint(pid))
	has, err := os.Stat(filepath.Join(at, "exe"))
	if err != nil {
		return false
	}
	want, err := os.Stat(argv[0])
	if err != nil || !os.SameFile(has, want) {
		return false
	}
	line, err := os.ReadFile(filepath.Join(at, "cmdline"))
	return err == nil && slices.Equal(strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), argv)
}
