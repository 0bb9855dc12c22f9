package workloadfiles

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// folder writes files beneath one directory and follows no link out of it: other containers mount
// it too, and may put links, pipes or folders where a file is expected (INP-11).
type folder struct {
	root *os.Root
	path string
}

// open opens name below f, which must be a real folder.
func (f folder) open(name string) (folder, error) {
	root, err := f.root.OpenRoot(name)
	if err != nil {
		return folder{}, err
	}
	out := folder{root: root, path: f.path + "/" + name}
	if err := f.same(name, root); err != nil {
		_ = root.Close()
		return folder{}, err
	}
	return out, nil
}

// same rejects a name that is not, or no longer, the opened folder.
func (f folder) same(name string, opened *os.Root) error {
	now, err := f.root.Lstat(name)
	if err != nil {
		return err
	}
	was, err := opened.Stat(".")
	if err != nil {
		return err
	}
	if !now.IsDir() || !os.SameFile(now, was) {
		return fmt.Errorf("PATH_ESCAPE: %s/%s is not the folder that this agent made: another process replaced it", f.path, name)
	}
	return nil
}

// access is the mode and owner of a file. A negative id keeps that of this process.
type access struct {
	mode     fs.FileMode
	uid, gid int
}

// put replaces name atomically: a reader sees the old file or the new one, with its final owner and
// mode from the start. The umask has no effect.
func (f folder) put(name string, data []byte, who access) error {
	// Each try has a random name, so that no other process can have prepared the file.
	temporary := "." + name + "." + rand.Text()
	file, err := f.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %s/%s: %w", f.path, name, err)
	}
	if who.uid >= 0 || who.gid >= 0 {
		err = file.Chown(who.uid, who.gid)
	}
	if err == nil {
		err = file.Chmod(who.mode)
	}
	if err == nil {
		_, err = file.Write(data)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = f.root.Rename(temporary, name)
	}
	if err != nil {
		_ = f.root.Remove(temporary)
		return fmt.Errorf("write %s/%s: %w", f.path, name, err)
	}
	return nil
}

// holds reports whether name is a plain file as put would leave it.
func (f folder) holds(name string, data []byte, who access) bool {
	at, err := f.root.Lstat(name)
	if err != nil || !at.Mode().IsRegular() || at.Mode().Perm() != who.mode.Perm() || at.Size() != int64(len(data)) {
		return false
	}
	if owner, ok := at.Sys().(*syscall.Stat_t); !ok || !who.owns(owner) {
		return false
	}
	// Do not block, in case another process has put a pipe there.
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer file.Close() //nolint:errcheck // read only
	if opened, err := file.Stat(); err != nil || !os.SameFile(at, opened) {
		return false
	}
	present, err := io.ReadAll(io.LimitReader(file, int64(len(data))+1))
	return err == nil && bytes.Equal(present, data)
}

// owns reports whether a file has the owner and group that put gives it.
func (a access) owns(at *syscall.Stat_t) bool {
	uid, gid := os.Geteuid(), os.Getegid()
	if a.uid >= 0 {
		uid = a.uid
	}
	if a.gid >= 0 {
		gid = a.gid
	}
	return int64(at.Uid) == int64(uid) && int64(at.Gid) == int64(gid)
}

// names lists the folder.
func (f folder) names() ([]string, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", f.path, err)
	}
	defer dir.Close() //nolint:errcheck // read only
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", f.path, err)
	}
	return names, nil
}

// remove deletes name, of any type; a missing file is no error.
func (f folder) remove(name string) error {
	if err := f.root.RemoveAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s/%s: %w", f.path, name, err)
	}
	return nil
}
