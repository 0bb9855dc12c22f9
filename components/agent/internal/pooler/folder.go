package pooler

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"cadre.dev/agent/internal/durable"
	"cadre.dev/agent/internal/workloadfiles"
)

const (
	iniFile   = "pgbouncer.ini"
	hbaFile   = "hba.conf"
	usersFile = "users.txt"
	// logPipe is the pipe of PgBouncer's log; it outlives the worker that reads it.
	logPipe = "log"
)

// folder is the folder of one Pooler. Its owner is root, so that PgBouncer cannot place a link
// where the agent writes. PgBouncer writes to run, which it owns.
type folder string

func (c Config) folder() folder { return folder(filepath.Join(c.Dir, c.Route)) }

func (f folder) path(name string) string { return filepath.Join(string(f), name) }
func (f folder) run() string             { return f.path("run") }
func (f folder) pid() string             { return filepath.Join(f.run(), "pid") }
func (f folder) socket(port uint16) string {
	return filepath.Join(f.run(), ".s.PGSQL."+strconv.Itoa(int(port)))
}

// owner returns the owner of the files: unchanged if this process is not root.
func (c Config) owner() (uid, gid int) {
	if os.Geteuid() != 0 {
		return -1, -1
	}
	return int(c.UID), int(c.GID)
}

// prepare makes the folder and the files that do not change.
func (c Config) prepare() error {
	f := c.folder()
	uid, gid := c.owner()
	if uid == 0 {
		return errors.New("pgbouncer refuses to run as root: name another uid for it")
	}
	err := os.MkdirAll(c.Dir, 0o711) //nolint:gosec // its files have modes of their own
	if err == nil {
		err = workloadfiles.InMemory(c.Dir)
	}
	for _, dir := range []string{string(f), f.run()} {
		if err == nil {
			if err = os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		}
	}
	if err == nil {
		// Set the mode again, because the umask may have reduced it.
		err = errors.Join(os.Chmod(string(f), 0o711), os.Lchown(f.run(), uid, gid), os.Chmod(f.run(), 0o700)) //nolint:gosec // others may pass, and read nothing
	}
	if err == nil {
		err = f.makePipe()
	}
	if err != nil {
		return fmt.Errorf("prepare the pooler's folder: %w", err)
	}
	return nil
}

func (f folder) makePipe() error {
	err := syscall.Mkfifo(f.path(logPipe), 0o600)
	if errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}

// put replaces a file as a whole, readable by PgBouncer alone, and reports whether it
// was another before.
func (c Config) put(name string, data []byte) (changed bool, err error) {
	f := c.folder()
	if was, err := os.ReadFile(f.path(name)); err == nil && bytes.Equal(was, data) {
		return false, nil
	}
	temporary := f.path("." + name + "." + rand.Text())
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, fmt.Errorf("write the pooler's %s: %w", name, err)
	}
	_, err = file.Write(data)
	if uid, gid := c.owner(); err == nil {
		err = file.Chown(uid, gid)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary, f.path(name))
	}
	if err != nil {
		_ = os.Remove(temporary)
		return false, fmt.Errorf("write the pooler's %s: %w", name, err)
	}
	return true, nil
}

// readUsers reads the passwords. It omits users with an unreadable password and returns their
// errors.
func readUsers(from map[string]string) ([]user, error) {
	var (
		out  []user
		errs []error
	)
	for _, name := range slices.Sorted(maps.Keys(from)) {
		password, err := readPassword(from[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("user %s: %w", name, err))
			continue
		}
		out = append(out, user{name: name, password: password})
	}
	return out, errors.Join(errs...)
}

// readPassword removes one line end at the end of the file from the password.
func readPassword(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, exists, err := durable.ReadFile(path, maxPassword+2)
	if err != nil {
		return "", err
	}
	if !exists {
		return "", fmt.Errorf("%s does not exist: declare the secret", path)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case password == "":
		return "", fmt.Errorf("%s is empty", path)
	case len(password) > maxPassword || strings.ContainsRune(password, 0):
		return "", fmt.Errorf("%s: a password may have %d bytes, and no zero among them", path, maxPassword)
	}
	return password, nil
}

// readPID returns the pid from PgBouncer's file; 0 if there is no usable pid.
func (f folder) readPID() int {
	// PgBouncer's user may have put anything there: no link is followed, no pipe waited for.
	file, err := os.OpenFile(f.pid(), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer file.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(file, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}
