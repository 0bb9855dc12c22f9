package localcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Stopped is the result of Stop.
type Stopped struct {
	// Daemons that were ended; Killed says that they did not end when they were asked to.
	Daemons []int `json:"daemons"`
	Killed  bool  `json:"killed"`
	// Cleaned describes the removed remains of a dead daemon, in a sentence; empty for none.
	Cleaned string `json:"cleaned,omitempty"`
}

// Anything reports whether there was anything to stop or to clean up.
func (s Stopped) Anything() bool { return len(s.Daemons) > 0 || s.Cleaned != "" }

// killTime is the part of Stop's time for killing and cleaning up.
const killTime = 15 * time.Second

// Stop ends the daemon of a state folder, from any starter, waits for it, and removes the remains
// of a dead daemon. Stop kills a daemon that is still running when killTime of ctx is left. Nothing
// to stop is success. program is the daemon's program; empty: as for Start.
func Stop(ctx context.Context, dir, program string) (Stopped, error) {
	var did Stopped
	pids, err := holders(dir)
	if err != nil {
		return did, err
	}
	if len(pids) > 0 {
		did.Daemons = pids
		if did.Killed, err = end(ctx, dir, pids); err != nil {
			return did, err
		}
	}
	did.Cleaned, err = cleanUp(ctx, dir, program)
	return did, err
}

// end asks the daemons to end, then makes them.
func end(ctx context.Context, dir string, pids []int) (killed bool, err error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		asking, cancel = context.WithTimeout(ctx, max(left-killTime, left/2))
		defer cancel()
	}
	// A stopped process receives signals only after it continues.
	if err := send(pids, syscall.SIGTERM, syscall.SIGCONT); err != nil {
		return false, err
	}
	if gone(asking, dir) {
		return false, nil
	}
	if err := send(pids, syscall.SIGKILL); err != nil {
		return false, err
	}
	killing, cancelKilling := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancelKilling()
	if !gone(killing, dir) {
		return true, fmt.Errorf("the daemon (pid %d) does not end, not even by force: look at its state with `ps -o stat,wchan -p %d`", pids[0], pids[0])
	}
	return true, nil
}

func send(pids []int, signals ...syscall.Signal) error {
	for _, pid := range pids {
		for _, s := range signals {
			if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stop the daemon (pid %d): %w", pid, err)
			}
		}
	}
	return nil
}

// gone waits until no daemon holds the folder.
func gone(ctx context.Context, dir string) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if pids, err := holders(dir); err == nil && len(pids) == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// cleanUp has the daemon's program remove a dead daemon's remains, and returns its output.
func cleanUp(ctx context.Context, dir, program string) (string, error) {
	program, err := find(program)
	if _, missing := os.Stat(dir); err != nil && errors.Is(missing, os.ErrNotExist) {
		return "", nil // nothing was ever here: the program need not be there either
	}
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	var out, problem bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "cleanup", "--state", dir)
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("clean up %s: %w: %s", dir, err, strings.TrimSpace(problem.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
