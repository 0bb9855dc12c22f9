package supervise

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// stopLimit is how long the child has between SIGTERM and SIGKILL.
const stopLimit = 10 * time.Second

// process is one run of the child.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid after done
}

// start runs argv in a process group of its own that dies with this process.
func start(argv []string, out io.Writer) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		// The kernel sends Pdeathsig when the *thread* that forked ends, so the
		// thread is kept for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.cmd = exec.Command(argv[0], argv[1:]...) //nolint:noctx // stop ends the whole group in order
		p.cmd.Stdout, p.cmd.Stderr = out, out
		p.cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent"}
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = p.cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// stop ends the group and waits for it.
func (p *process) stop(ctx context.Context) {
	p.signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		p.signal(syscall.SIGKILL)
		<-p.done
	}
}
