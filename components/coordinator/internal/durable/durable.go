// Package durable writes files of the state directory that must survive a loss of power.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile replaces path atomically, with mode 0600: after a loss of power it is the old file or
// the new one. The folder must exist; path + ".new" is a temporary file. Two writers of one path
// must take turns.
func WriteFile(path string, data []byte) error {
	// A file of this name is left over from an interrupted write, or foreign.
	fresh := path + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	file, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
