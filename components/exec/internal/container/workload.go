package container

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// workload is the container's main process. It is restarted on a request of the agent.
type workload struct {
	program string
	argv    []string
	as      *syscall.Credential
	// files are the standard descriptors of each run.
	files []uintptr

	mu sync.Mutex
	// env is the initial environment of each run. Guarded by mu.
	env *meshEnv
	// pid is 0 between two runs. Guarded by mu.
	pid int
	// ending: the container ends with this run, despite later requests. Guarded by mu.
	ending bool
	// again is set from the request for a restart until the new run began; it receives the error,
	// "" for none. Guarded by mu.
	again chan<- string
}

// begin starts a run. The caller holds mu, except for the first run.
func (w *workload) begin() error {
	pid, err := syscall.ForkExec(w.program, w.argv, &syscall.ProcAttr{Env: os.Environ(), Files: w.files, Sys: &syscall.SysProcAttr{Credential: w.as}})
	if err != nil {
		return startProblem(w.program, err, w.as)
	}
	w.pid = pid
	return nil
}

// passOn passes the container's signals to the workload. A signal that ends the container also ends
// it in the middle of a restart, and prevents the restart.
func (w *workload) passOn(signals <-chan os.Signal) {
	for s := range signals {
		if sig, ok := forThe(s); ok {
			w.signal(sig, slices.Contains(stops, sig))
		}
	}
}

func (w *workload) signal(sig syscall.Signal, ends bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = w.ending || ends
	if w.pid > 0 {
		_ = syscall.Kill(w.pid, sig)
	}
}

// reap collects every process that ends, until the workload ends without a restart.
func (w *workload) reap(server int) int {
	code := 0
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fail(exitFailed, fmt.Errorf("wait: %w", err))
		case pid == server:
			// Without the server, init cannot separate the leftovers of commands from those of the
			// workload: the container starts again.
			_ = fail(exitFailed, fmt.Errorf("the server of commands ended with code %d: the workload is stopped", exitCode(status)))
			w.last()
		case w.ended(pid):
			code = exitCode(status)
		}
		if over, problem := w.next(server); problem != nil {
			return fail(exitCannotRun, problem)
		} else if over {
			return code
		}
	}
}

// last ends the run, after which no other begins.
func (w *workload) last() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	if w.pid > 0 {
		_ = syscall.Kill(w.pid, syscall.SIGTERM)
	}
}

// ended reports that pid was the workload.
func (w *workload) ended(pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pid != w.pid {
		return false
	}
	w.pid = 0
	return true
}

// next begins the next run if one is due and no process of the previous run is left. over: no run
// is due.
func (w *workload) next(server int) (over bool, problem error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.pid > 0:
		return false, nil
	case w.again == nil || w.ending:
		return true, nil
	case killBelow(func(pid int) bool { return pid == server }) > 0:
		return false, nil // their end is waited for
	}
	err := w.env.take()
	if err == nil {
		err = w.begin()
	}
	said := ""
	if err != nil {
		said = err.Error()
	}
	w.again <- said
	w.again = nil
	return false, err
}

// restart asks the workload to end, kills it after stop, and returns the error once the next run
// began; "" for none.
func (w *workload) restart(stop time.Duration) string {
	done := make(chan string, 1)
	w.mu.Lock()
	switch {
	case w.ending || w.pid == 0 && w.again == nil:
		w.mu.Unlock()
		return "the container ends"
	case w.again != nil:
		w.mu.Unlock()
		return "it is being restarted already"
	}
	w.again = done
	ends := w.pid
	_ = syscall.Kill(ends, syscall.SIGTERM)
	w.mu.Unlock()
	late := time.AfterFunc(stop, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.pid == ends {
			_ = syscall.Kill(ends, syscall.SIGKILL)
		}
	})
	defer late.Stop()
	return <-done // or this process ends
}

// takeRestarts carries out the server's requests, one line each: the workload's time to end. The
// answer is a line too, empty or the error.
func (w *workload) takeRestarts(server io.ReadWriter) {
	for lines := bufio.NewScanner(server); lines.Scan(); {
		stop, err := time.ParseDuration(lines.Text())
		said := ""
		if err != nil {
			said = err.Error()
		} else {
			said = w.restart(stop)
		}
		if _, err := fmt.Fprintln(server, strings.ReplaceAll(said, "\n", " ")); err != nil {
			return // the server is gone, and the container goes
		}
	}
}
