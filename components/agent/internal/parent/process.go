package parent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// process is one run of the worker.
type process struct {
	pid int
	// done gets one exit.
	done chan exit
}

// start runs argv with link as file descriptor linkFD. It dies with this process. All other
// children that end meanwhile are reaped too: as pid 1 this process is given every orphan.
func start(argv []string, link *os.File) (process, error) {
	p := process{done: make(chan exit, 1)}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the *thread* that forked ends, so the thread is
		// kept for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		began := time.Now()
		pid, err := fork(argv, link)
		p.pid = pid
		started <- err
		if err == nil {
			out := wait(pid)
			out.lived = time.Since(began)
			p.done <- out
		}
	}()
	if err := <-started; err != nil {
		return process{}, fmt.Errorf("start the worker: %w", err)
	}
	return p, nil
}

func fork(argv []string, link *os.File) (int, error) {
	return syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2, linkFD: link.Fd()},
		// A group of its own: a terminal's interrupt is the parent's alone.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
}

// wait reaps children until pid has ended.
func wait(pid int) exit {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return exit{code: -1, signal: "unknown: " + err.Error()}
		case got != pid:
		case status.Exited():
			return exit{code: status.ExitStatus()}
		case status.Signaled():
			return exit{code: -1, signal: status.Signal().String()}
		}
	}
}

func (p process) signal(s syscall.Signal) { _ = syscall.Kill(p.pid, s) }
