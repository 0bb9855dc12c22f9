package localcloud

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// lockFile is held by a daemon while it lives.
func lockFile(dir string) string { return filepath.Join(dir, "lock") }

// holders are the daemons of a state folder, under any name of the folder: the processes that have
// its lock open, also after the folder was removed.
func holders(dir string) ([]int, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	lock := lockFile(dir)
	parents := map[int]int{}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for the daemon: %w", err)
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err == nil && opened(pid, lock) {
			parents[pid] = parent(pid)
		}
	}
	var out []int
	for pid, parent := range parents {
		// A child that has not become its own program yet shares the open files.
		if _, forked := parents[parent]; !forked {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return nil, refuseHidden(lock)
	}
	return out, nil
}

// opened reports whether a process has the file open. Processes that end meanwhile, and processes
// of other users, have nothing open.
func opened(pid int, file string) bool {
	folder := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	fds, err := os.ReadDir(folder)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		target, err := os.Readlink(filepath.Join(folder, fd.Name()))
		if err == nil && strings.TrimSuffix(target, " (deleted)") == file {
			return true
		}
	}
	return false
}

// parent of a process; 0 when it is gone.
func parent(pid int) int {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	// The name before the last ')' may hold anything; state and parent follow.
	_, rest, _ := cutLast(string(raw), ")")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	n, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return n
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// refuseHidden returns an error when a process holds the lock that this user cannot see.
func refuseHidden(lock string) error {
	f, err := os.Open(lock)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s belongs to another user: run this as that user, or with sudo", lock)
	case err != nil:
		return fmt.Errorf("look for the daemon: %w", err)
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("a daemon that this user cannot see holds %s: run this as root", lock)
	}
	return nil // closing the file lets go of the lock
}
