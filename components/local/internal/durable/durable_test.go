package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteReplacesAsAWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	// The temporary file of a killed run blocks no write, with any permissions.
	if err := os.WriteFile(path+".new", []byte("half of something longer"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"first", "2nd"} {
		if err := Write(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil || string(raw) != content {
			t.Errorf("content = %q, %v, want %q", raw, err, content)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "taken"), nil, 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if err := Write(filepath.Join(dir, "absent", "file"), nil, 0o600); err == nil {
		t.Error("a folder that is not there took a file")
	}
}
