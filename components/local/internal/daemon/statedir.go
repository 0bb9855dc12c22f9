package daemon

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stateDir is an opened and locked state directory.
type stateDir struct {
	path string // absolute, without symlinks
	lock *os.File
}

// errInUse: another daemon holds the directory.
var errInUse = errors.New("another cadre-local serve uses this state directory")

func openStateDir(path string) (*stateDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, fmt.Errorf("resolve state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", path, errInUse)
		}
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	return &stateDir{path: path, lock: f}, nil
}

func (d *stateDir) close() { d.lock.Close() }

// apiKey reads the cloud's API key, or makes it.
func (d *stateDir) apiKey() (string, error) {
	path := filepath.Join(d.path, "api_key")
	raw, err := os.ReadFile(path)
	if err == nil && len(bytes.TrimSpace(raw)) > 0 {
		return string(bytes.TrimSpace(raw)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read api key: %w", err)
	}
	b := make([]byte, 20)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	key := "phak_" + hex.EncodeToString(b)
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write api key: %w", err)
	}
	return key, nil
}

// Cleaned lists the items that Cleanup removed.
type Cleaned struct {
	// Processes of CVMs; CVMs that were still said to run.
	Processes, CVMs int
	// Ready is whether a cloud.json was left.
	Ready bool
}

func (c Cleaned) String() string {
	text := fmt.Sprintf("a daemon that died had left %d processes and the run directories of %d CVMs", c.Processes, c.CVMs)
	if c.Ready {
		text += ", and cloud.json"
	}
	return text
}

// Cleanup removes the remains of a killed daemon: processes of its CVMs, run directories with their
// sockets, cloud.json. Namespaces, cables and mounts have no names and went with the processes.
// Disks, logs and state stay. A directory that is gone may still have processes.
func Cleanup(path string) (Cleaned, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path, err = filepath.Abs(path)
		if err != nil {
			return Cleaned{}, fmt.Errorf("resolve state directory: %w", err)
		}
		return (&stateDir{path: path}).cleanUp()
	}
	d, err := openStateDir(path)
	if err != nil {
		if errors.Is(err, errInUse) {
			return Cleaned{}, fmt.Errorf("%w; stop it with SIGTERM instead", err)
		}
		return Cleaned{}, err
	}
	defer d.close()
	return d.cleanUp()
}

func (d *stateDir) cleanUp() (Cleaned, error) {
	var did Cleaned
	var errs [2]error
	did.Processes, errs[0] = d.killStrays()
	runs, err := filepath.Glob(filepath.Join(d.path, "cvms", "*", "run"))
	if err != nil {
		return did, err
	}
	did.CVMs = len(runs)
	for _, run := range runs {
		errs[1] = errors.Join(errs[1], os.RemoveAll(run))
	}
	err = os.Remove(cloudFilePath(d.path))
	did.Ready = err == nil
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return did, errors.Join(errs[0], errs[1], err)
}

// killStrays kills pid 1 of CVMs of this directory that are still there and
// waits until they are gone. It returns how many there were.
func (d *stateDir) killStrays() (int, error) {
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	seen := map[int]struct{}{}
	for {
		pids := d.strays()
		if len(pids) == 0 {
			return len(seen), nil
		}
		if time.Now().After(deadline) {
			return len(seen), fmt.Errorf("processes %v do not end", pids)
		}
		for _, pid := range pids {
			seen[pid] = struct{}{}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-tick.C
	}
}

func (d *stateDir) strays() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue
		}
		args := strings.Split(string(raw), "\x00")
		if len(args) >= 4 && args[1] == "cvm-init" && args[2] == "--spec" && strings.HasPrefix(args[3], filepath.Join(d.path, "cvms")+"/") {
			out = append(out, pid)
		}
	}
	return out
}
