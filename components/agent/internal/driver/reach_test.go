package driver

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// closed reports whether not every user may enter dir, as below root's home.
func closed(t *testing.T, dir string) bool {
	t.Helper()
	for at := dir; at != "/"; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o001 == 0 {
			return true
		}
	}
	return false
}

// reachable returns dir, or a copy that every user may enter. The scripts in a copied bin, like
// those of a virtual environment, name the copy.
func reachable(t *testing.T, dir string) string {
	t.Helper()
	if !closed(t, dir) {
		return dir
	}
	to, err := os.MkdirTemp("", "cadre-reach-") //nolint:usetesting // another user must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(to) })
	if err := errors.Join(os.CopyFS(to, os.DirFS(dir)), os.Chmod(to, 0o755)); err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob(filepath.Join(to, "bin/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(text, []byte("#!"+dir+"/")) {
			continue
		}
		if err := os.WriteFile(path, bytes.Replace(text, []byte(dir), []byte(to), 1), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// reachablePath is PATH with folders that every user may enter. A closed folder that contains only
// links, as scripts/tools.sh makes them, is copied.
func reachablePath(t *testing.T) string {
	t.Helper()
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		links := !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Type()&os.ModeSymlink == 0 })
		if links || !closed(t, dir) {
			dirs = append(dirs, reachable(t, dir))
		}
	}
	return strings.Join(dirs, ":")
}
