package collateral

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// maxFiles bounds the bundles of one folder.
const maxFiles = 256

// Files are imported bundles: one file, or every *.json of a folder. They are
// read again when size or time of a file changes, so an import needs no restart.
type Files struct {
	// Path of the file or folder; constant.
	Path string

	mu   sync.Mutex
	read map[string]fileBundle // guarded by mu; by path
}

type fileBundle struct {
	size     int64
	modified time.Time
	fmspc    string
	bundle   Bundle
	err      error
}

// Bundle implements Source. An unreadable file does not hide other files; the error names it if no
// bundle was found.
func (f *Files) Bundle(_ context.Context, fmspc string) (Bundle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(); err != nil {
		return Bundle{}, asUnavailable("read collateral files", err)
	}
	var (
		found fileBundle
		errs  []error
	)
	for path, b := range f.read {
		switch {
		case b.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(path), b.err))
		// Of two files of one family the one written last counts.
		case b.fmspc == fmspc && b.modified.After(found.modified):
			found = b
		}
	}
	if !found.modified.IsZero() {
		return found.bundle, nil
	}
	return Bundle{}, unusable("no file in %s is of FMSPC %s: %v", f.Path, fmspc, errors.Join(errs...))
}

// refresh reads the changed files. The caller holds mu.
func (f *Files) refresh() error {
	paths, err := f.list()
	if err != nil {
		return err
	}
	next := make(map[string]fileBundle, len(paths))
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue // gone since it was listed
		}
		if old, ok := f.read[path]; ok && old.size == info.Size() && old.modified.Equal(info.ModTime()) {
			next[path] = old
			continue
		}
		b := fileBundle{size: info.Size(), modified: info.ModTime()}
		b.bundle, b.fmspc, b.err = readFile(path)
		next[path] = b
	}
	f.read = next
	return nil
}

func (f *Files) list() ([]string, error) {
	info, err := os.Stat(f.Path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{f.Path}, nil
	}
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if entry.Type()&fs.ModeType&^fs.ModeSymlink == 0 && strings.HasSuffix(entry.Name(), ".json") {
			paths = append(paths, filepath.Join(f.Path, entry.Name()))
		}
	}
	if len(paths) > maxFiles {
		return nil, fmt.Errorf("%s has %d bundles, at most %d are read", f.Path, len(paths), maxFiles)
	}
	return paths, nil
}

func readFile(path string) (Bundle, string, error) {
	file, err := os.Open(path)
	if err != nil {
		return Bundle{}, "", err
	}
	defer file.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(file, MaxBundleSize+1))
	if err != nil {
		return Bundle{}, "", err
	}
	b, err := ParseBundle(data)
	if err != nil {
		return Bundle{}, "", err
	}
	fmspc, _, err := b.Claims()
	return b, fmspc, err
}
