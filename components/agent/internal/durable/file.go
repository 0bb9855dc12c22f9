package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces path with data: write to a temporary file in the same
// folder, sync it, rename it, sync the folder. The folder must exist.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return WriteFileAs(path, data, mode, 0)
}

// WriteFileAs is WriteFile with a group; 0 leaves the group of this process.
func WriteFileAs(path string, data []byte, mode fs.FileMode, gid int) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // gone already after the rename
	_, err = tmp.Write(data)
	if err == nil && gid != 0 {
		err = tmp.Chown(-1, gid)
	}
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// RemoveLeftovers removes the temporary files of interrupted writes of path. No write may run
// meanwhile.
func RemoveLeftovers(path string) error {
	leftovers, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".*"))
	if err != nil {
		return fmt.Errorf("remove leftovers of %s: %w", path, err)
	}
	for _, left := range leftovers {
		if err := os.Remove(left); err != nil {
			return fmt.Errorf("remove leftovers of %s: %w", path, err)
		}
	}
	return nil
}

// WriteJSON is WriteFile of v as JSON with mode 0600.
func WriteJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return WriteFile(path, append(data, '\n'), 0o600)
}

// ReadJSON decodes path into v and reports whether the file exists. A file over limit bytes is an
// error: the writer bounds its files.
func ReadJSON(path string, limit int64, v any) (bool, error) {
	return decode(path, limit, v, ReadFile)
}

func decode(path string, limit int64, v any, read func(string, int64) ([]byte, bool, error)) (bool, error) {
	data, exists, err := read(path, limit)
	if err != nil || !exists {
		return false, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

// ReadFile reads path and reports whether it exists. One over limit bytes is an error.
func ReadFile(path string, limit int64) (data []byte, exists bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close() //nolint:errcheck // read only
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(data)) > limit {
		return nil, false, fmt.Errorf("read %s: larger than %d bytes", path, limit)
	}
	return data, true, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
