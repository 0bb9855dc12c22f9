package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// outputLimit bounds what is kept of a command's output.
	outputLimit = 64 << 10
	// killAfter is how long a command has between SIGTERM and SIGKILL.
	killAfter = 5 * time.Second
	path      = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Run runs argv with env and PATH only: the agent's own environment is not
// inherited. When ctx ends the whole group gets SIGTERM, then SIGKILL. It returns
// the exit code and the first 64 KiB of the output; err is set when the command
// could not be started, was killed, or outlived ctx.
func Run(ctx context.Context, argv, env []string) (code int, output string, err error) {
	if len(argv) == 0 {
		return -1, "", errors.New("command is empty")
	}
	out := &bounded{}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append([]string{path}, env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	err = cmd.Run()
	if cmd.Process != nil {
		// What the command left behind in its group holds our pipes and the hook's token.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	text := strings.TrimSpace(out.String())
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return -1, text, fmt.Errorf("run %s: %w", argv[0], context.Cause(ctx))
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), text, nil
	case err != nil:
		return -1, text, fmt.Errorf("run %s: %w", argv[0], err)
	}
	return 0, text, nil
}

// bounded keeps the first outputLimit bytes and drops the rest. Only one
// goroutine of os/exec writes, since Stdout and Stderr are the same writer.
type bounded struct{ b strings.Builder }

func (w *bounded) Write(p []byte) (int, error) {
	if room := outputLimit - w.b.Len(); room > 0 {
		w.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (w *bounded) String() string { return w.b.String() }
