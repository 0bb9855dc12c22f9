package localcloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Program is the daemon's file name.
const Program = "cadre-local"

// StartOptions of a daemon.
type StartOptions struct {
	// Dir is the state folder.
	Dir string
	// Flags of the daemon, passed on unchanged. For omitted flags the daemon uses this cloud's last
	// values.
	Flags []string
	// Program is the daemon's executable; empty: next to this executable, then in PATH.
	Program string
}

// Start runs the daemon detached and waits until its API answers. Start leaves a running daemon
// alone, also one of another starter; began is then false.
func Start(ctx context.Context, o StartOptions) (info Info, began bool, err error) {
	pids, err := holders(o.Dir)
	if err != nil {
		return Info{}, false, err
	}
	if len(pids) > 0 {
		if info, err = ReadInfo(o.Dir); err == nil {
			err = NewAPI(info).Ready(ctx)
		}
		if err != nil {
			return info, false, fmt.Errorf("a daemon (pid %d) runs on %s but does not answer; see %s, or end it with `cadre local down%s`: %w", pids[0], o.Dir, LogFile(o.Dir), At(o.Dir), err)
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
	// A stale file would say that the cloud is ready.
	if err := remove(CloudFile(o.Dir)); err != nil {
		return Info{}, false, fmt.Errorf("remove the old cloud.json: %w", err)
	}
	log, err := os.OpenFile(LogFile(o.Dir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return Info{}, false, fmt.Errorf("open the daemon's log: %w", err)
	}
	defer log.Close()
	// The daemon outlives this program and its context.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, append([]string{"serve", "--state", o.Dir}, o.Flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Info{}, false, fmt.Errorf("start %s: %w", program, err)
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

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
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
		return "", fmt.Errorf("%s is neither next to this program nor in PATH: build it with `make build`", Program)
	}
	return path, nil
}

// LogFile is the daemon's log.
func LogFile(dir string) string { return filepath.Join(dir, Program+".log") }
