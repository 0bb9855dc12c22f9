// Package durable writes files that are there whole or not at all, also after a power cut.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write replaces the file at path by one of mode. When it returns, the disk has the new
// content; until then, whenever the machine goes down, the old.
func Write(path string, content []byte, mode os.FileMode) error {
	beside := path + ".new"
	f, err := os.OpenFile(beside, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(content)
	// An earlier run may have left one of another mode. Synced before the rename, or a
	// power cut could leave an empty file in its place.
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(beside, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("flush the folder of %s: %w", path, err)
	}
	return nil
}
