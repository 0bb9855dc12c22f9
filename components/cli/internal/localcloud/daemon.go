package localcloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Program is the daemon's file name.
const Program = "cadre-local"

// StartOptions of a daemon.
type StartOptions struct {
	// Dir is the state folder; Images the file that maps images to programs.
	Dir, Images string
	BootDelay   time.Duration
	// Extra flags, passed on as they are.
	Extra []string
	// Program is the daemon to run; empty: beside this executable, then in PATH.
	Program string
}

// Start runs the daemon detached and waits until its API answers. A daemon that
// runs already is left alone; started is false then.
func Start(ctx context.Context, o StartOptions) (info Info, started bool, err error) {
	if pid, ok := running(o.Dir); ok {
		if info, err = ReadInfo(o.Dir); err == nil {
			err = NewAPI(info).Ready(ctx)
		}
		if err != nil {
			return info, false, fmt.Errorf("the daemon runs (pid %d) but does not answer, see %s: %w", pid, LogFile(o.Dir), err)
		}
		return info, false, nil
	}
	program, err := find(o.Program)
	if err != nil {
		return Info{}, false, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return Info{}, false, fmt.Errorf("make state folder: %w", err)
	}
	// A stale file would name ports of a daemon that is gone.
	if err := os.Remove(CloudFile(o.Dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Info{}, false, fmt.Errorf("remove the old cloud.json: %w", err)
	}
	log, err := os.OpenFile(LogFile(o.Dir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return Info{}, false, fmt.Errorf("open the daemon's log: %w", err)
	}
	defer log.Close()
	args := []string{"serve", "--state", o.Dir}
	if o.Images != "" {
		args = append(args, "--images", o.Images)
	}
	if o.BootDelay > 0 {
		args = append(args, "--boot-delay", o.BootDelay.String())
	}
	// The daemon outlives this program and its context.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, append(args, o.Extra...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Info{}, false, fmt.Errorf("start %s: %w", program, err)
	}
	if err := os.WriteFile(pidFile(o.Dir), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		return Info{}, true, fmt.Errorf("write pid: %w", err)
	}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }() // ends with the daemon or with this program
	info, err = await(ctx, o.Dir, died)
	return info, true, err
}

func await(ctx context.Context, dir string, died <-chan error) (Info, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := ReadInfo(dir)
		if err == nil {
			if err = NewAPI(info).Ready(ctx); err == nil {
				return info, nil
			}
		}
		select {
		case ended := <-died:
			return Info{}, fmt.Errorf("the daemon ended at once (%w), see %s", errors.Join(ended, tail(LogFile(dir))), LogFile(dir))
		case <-ctx.Done():
			return Info{}, fmt.Errorf("the daemon does not answer, see %s: %w: %w", LogFile(dir), context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// tail is the last line of a log as an error.
func tail(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return errors.New(lines[len(lines)-1])
}

// Stop ends the daemon of a state folder and waits for it. Nothing to stop is
// success; stopped is false then.
func Stop(ctx context.Context, dir string) (stopped bool, err error) {
	pid, ok := running(dir)
	if !ok {
		return false, nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return false, fmt.Errorf("stop the daemon (pid %d): %w", pid, err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if now, ok := running(dir); !ok || now != pid {
			return true, errors.Join(remove(pidFile(dir)), remove(CloudFile(dir)))
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("the daemon (pid %d) does not end: %w", pid, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Pid of the running daemon.
func Pid(dir string) (int, bool) { return running(dir) }

// running reads the pid file and checks that the process is still a daemon of
// this folder: pids are used again.
func running(dir string) (int, bool) {
	text, err := os.ReadFile(pidFile(dir))
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0, false
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return 0, false
	}
	args := strings.Split(string(line), "\x00")
	for i := 0; i+1 < len(args); i++ {
		if args[i] == "--state" && args[i+1] == dir {
			return pid, true
		}
	}
	return 0, false
}

func find(program string) (string, error) {
	if program != "" {
		return program, nil
	}
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			beside := filepath.Join(filepath.Dir(self), Program)
			if info, err := os.Stat(beside); err == nil && !info.IsDir() {
				return beside, nil
			}
		}
	}
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program nor in PATH: build it with `make build`", Program)
	}
	return path, nil
}

// LogFile is the daemon's log.
func LogFile(dir string) string { return filepath.Join(dir, Program+".log") }

func pidFile(dir string) string { return filepath.Join(dir, Program+".pid") }
