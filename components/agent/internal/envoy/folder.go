package envoy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// pathMost is how long the path of a unix socket may be.
	pathMost = 107
	// pipeSize bounds the waiting log lines of an Envoy while there is no worker.
	pipeSize = 256 << 10
)

// folder has the files of one proxy.
type folder string

// folderName is short and has only safe characters for any id: a socket's path is bounded.
func folderName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

func (f folder) bootstrap() string { return filepath.Join(string(f), "bootstrap.json") }
func (f folder) admin() string     { return filepath.Join(string(f), "admin.sock") }
func (f folder) log() string       { return filepath.Join(string(f), "log") }
func (f folder) lockFile() string  { return filepath.Join(string(f), "lock") }

// make has the folder and its pipe be there.
func (f folder) make() error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	if err := syscall.Mkfifo(f.log(), 0o600); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the pipe %s: %w", f.log(), err)
	}
	return nil
}

// holds reports whether the bootstrap is text.
func (f folder) holds(text []byte) bool {
	had, err := os.ReadFile(f.bootstrap())
	return err == nil && bytes.Equal(had, text)
}

// write puts the bootstrap there, whole or not at all.
func (f folder) write(text []byte) error {
	next := f.bootstrap() + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.bootstrap())
}

// lock takes the folder's lock; nil without an error means that another process has it. The lock is
// released when the file and all its copies are closed: an Envoy has a copy, from before its first
// instruction to after its last.
func (f folder) lock() (*os.File, error) {
	file, err := os.OpenFile(f.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", f.lockFile(), err)
}

// holders are the processes that have the lock's file open, other than this program's.
func (f folder) holders() []int {
	want, err := os.Stat(f.lockFile())
	if err != nil {
		return nil
	}
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return nil
	}
	var out []int
	procs, _ := os.ReadDir("/proc")
	for _, entry := range procs {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		at := filepath.Join("/proc", entry.Name())
		// A child of this program that has not begun its own yet has all our files.
		if exe, err := os.Stat(filepath.Join(at, "exe")); err != nil || os.SameFile(exe, self) {
			continue
		}
		files, _ := os.ReadDir(filepath.Join(at, "fd"))
		for _, file := range files {
			if had, err := os.Stat(filepath.Join(at, "fd", file.Name())); err == nil && os.SameFile(had, want) {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

// reader is the read end of the log pipe. It is open for writing too, so it never reaches end of
// file; Close ends it.
func (f folder) reader() (*os.File, error) {
	return os.OpenFile(f.log(), os.O_RDWR|syscall.O_NONBLOCK, 0)
}

// writer is the write end, for an Envoy: a full pipe, or a pipe without a reader, neither blocks
// nor kills the writer. The caller closes it.
func (f folder) writer() (int, error) {
	fd, err := unix.Open(f.log(), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the pipe %s: %w", f.log(), err)
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize) // the default size works, too
	return fd, nil
}
