package cvminit

import (
	"os"
	"path/filepath"
	"testing"
)

// One file under many names was copied once for each: a small image could fill the disk.
func TestAFileOfSeveralNamesIsCopiedOnce(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: volumes get the owners of the image's files, which needs root")
	}
	image, volume := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(image, "data/below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(image, "data/one"), []byte("content"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data/two", "data/below/three", "outside"} {
		if err := os.Link(filepath.Join(image, "data/one"), filepath.Join(image, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := populate(volume, image, "/data"); err != nil {
		t.Fatal(err)
	}
	one, err := os.Stat(filepath.Join(volume, "one"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"two", "below/three"} {
		at := filepath.Join(volume, name)
		other, err := os.Stat(at)
		if err != nil || !os.SameFile(one, other) {
			t.Errorf("%s is a file of its own, or none: %v", name, err)
		}
		if raw, err := os.ReadFile(at); err != nil || string(raw) != "content" || other.Mode().Perm() != 0o640 {
			t.Errorf("%s holds %q with %v, %v", name, raw, other.Mode(), err)
		}
	}
	mine, err := os.Stat(filepath.Join(image, "data/one"))
	if err != nil || os.SameFile(one, mine) {
		t.Errorf("the volume has the image's own file, which services would change: %v", err)
	}
}
