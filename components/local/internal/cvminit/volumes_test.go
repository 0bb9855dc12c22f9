package cvminit

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"cadre.dev/local/internal/compose"
	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/initctl"
)

// TestAnonymousVolumesAreApart: dashes and slashes of one make no other's name.
func TestAnonymousVolumesAreApart(t *testing.T) {
	none := map[string]compose.Volume{}
	seen := map[string]string{}
	for _, at := range []struct{ service, target string }{
		{"a", "/b/c"}, {"a-b", "/c"}, {"a", "/b-c"}, {"a-b-c", "/"}, {"a/b", "/c"},
	} {
		u := &unit{svc: compose.Service{Name: at.service}, volumes: maps.Clone(none)}
		anonymousVolumes(u, images.Unpacked{Stored: images.Stored{Volumes: []string{at.target}}})
		name := u.svc.Mounts[0].Source
		if other, taken := seen[name]; taken {
			t.Errorf("%s at %s has the volume of %s", at.service, at.target, other)
		}
		if seen[name] = at.service + " at " + at.target; u.volumes[name].Name != name {
			t.Errorf("%s at %s: its volume %q is not known", at.service, at.target, name)
		}
		again := &unit{svc: compose.Service{Name: at.service}, volumes: maps.Clone(none)}
		anonymousVolumes(again, images.Unpacked{Stored: images.Stored{Volumes: []string{at.target}}})
		if again.svc.Mounts[0].Source != name {
			t.Errorf("%s at %s has another volume at the next boot", at.service, at.target)
		}
	}
}

// TestANewVolumeIsOnTheDiskBeforeItHasItsName: a power cut leaves none or all of it.
func TestANewVolumeIsOnTheDiskBeforeItHasItsName(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: volumes keep the owners of the image's files, which needs root")
	}
	image, disk := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(image, "data/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(image, "data/deep/seed"), []byte("seed"), 0o600); err != nil {
		t.Fatal(err)
	}
	final := filepath.Join(disk, "volumes", "data")
	full, flushes := errors.New("disk is full"), 0
	v := &volumeSet{spec: initctl.Spec{Disk: disk}, ready: map[string]bool{}, flush: func(dir string) error {
		flushes++
		if raw, err := os.ReadFile(filepath.Join(dir, "deep/seed")); err != nil || string(raw) != "seed" {
			t.Errorf("flushed before it was whole: %q, %v", raw, err)
		}
		if _, err := os.Lstat(final); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it has its name before it is on the disk: %v", err)
		}
		if flushes == 1 {
			return full
		}
		return syncfs(dir)
	}}
	u := &unit{root: image}
	if _, err := v.ensure(compose.Volume{Name: "data"}, u, "/data"); !errors.Is(err, full) {
		t.Errorf("a flush that fails: %v", err)
	}
	for range 2 {
		if dir, err := v.ensure(compose.Volume{Name: "data"}, u, "/data"); err != nil || dir != final {
			t.Errorf("ensure = %q, %v", dir, err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(final, "deep/seed")); err != nil || string(raw) != "seed" || flushes != 2 {
		t.Errorf("after %d flushes the volume has %q, %v", flushes, raw, err)
	}
}
