package collateralcache

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
)

// folder is a folder of stored collateral, and a manufacturer.
type folder struct {
	t     testing.TB
	cloud *attestsim.Cloud
	dir   string
	now   time.Time
	log   bytes.Buffer
}

func newFolder(t testing.TB) *folder {
	t.Helper()
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &folder{t: t, cloud: cloud, dir: filepath.Join(t.TempDir(), "state", "collateral"), now: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)}
}

// open returns the cache of a new process.
func (f *folder) open() *Cache {
	return New(f.dir, func(b collateral.Bundle) error {
		_, _, err := attest.OpenBundle(b, f.cloud.RootPEM())
		return err
	}, func() time.Time { return f.now }, slog.New(slog.NewTextHandler(&f.log, nil)))
}

func (f *folder) set(p attestsim.Posture) *collateral.Set {
	f.t.Helper()
	b, err := f.cloud.Collateral(f.now, p)
	if err != nil {
		f.t.Fatal(err)
	}
	set, _, err := attest.OpenBundle(b, f.cloud.RootPEM())
	if err != nil {
		f.t.Fatal(err)
	}
	return set
}

func (f *folder) file() string { return filepath.Join(f.dir, attestsim.FMSPC()+".json") }

// wantNumber checks the evaluation number that a new process finds; 0: nothing.
func (f *folder) wantNumber(what string, want string) {
	f.t.Helper()
	b, err := f.open().Bundle(context.Background(), attestsim.FMSPC())
	switch {
	case want == "" && err == nil:
		f.t.Errorf("%s: was read", what)
	case want != "" && (err != nil || !strings.Contains(b.TCBInfo, `Number":`+want)):
		f.t.Errorf("%s: %v, want number %s", what, err, want)
	}
}

func TestATT06_AcceptedCollateralSurvivesARestart(t *testing.T) {
	f := newFolder(t)
	f.wantNumber("nothing was stored", "")
	if f.log.Len() > 0 {
		t.Errorf("a first start complains: %s", &f.log)
	}
	c := f.open()
	c.Put(f.set(attestsim.Posture{Evaluation: 18}))
	f.wantNumber("stored", "18")
	info, err := os.Stat(f.file())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v, %v", info, err)
	}
	if folder, err := os.Stat(f.dir); err != nil || folder.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v", folder, err)
	}
	c.Put(f.set(attestsim.Posture{Evaluation: 19}))
	f.wantNumber("stored again", "19")
	if names, err := os.ReadDir(f.dir); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	if _, err := f.open().Bundle(context.Background(), "../state/coll"); err == nil {
		t.Error("a path was taken for a family")
	}
}

// The same content is written once: admissions do not wear the disk.
func TestEqualCollateralIsWrittenOnce(t *testing.T) {
	f := newFolder(t)
	c, set := f.open(), f.set(attestsim.Posture{})
	c.Put(set)
	old := f.now.Add(-time.Hour)
	if err := os.Chtimes(f.file(), old, old); err != nil {
		t.Fatal(err)
	}
	unchanged := func(what string) {
		t.Helper()
		if info, err := os.Stat(f.file()); err != nil || !info.ModTime().Equal(old) {
			t.Errorf("%s: written again (%v)", what, err)
		}
	}
	c.Put(set)
	unchanged("the same process")
	next := f.open()
	if _, err := next.Bundle(context.Background(), attestsim.FMSPC()); err != nil {
		t.Fatal(err)
	}
	next.Put(set)
	unchanged("after a restart")
}

// No content of the folder ends or misleads a process.
func TestATT06_ADamagedFileIsIgnoredAndReplaced(t *testing.T) {
	for name, damage := range map[string]func(path string, good []byte) error{
		"empty":      func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
		"cut off":    func(path string, good []byte) error { return os.WriteFile(path, good[:len(good)/2], 0o600) },
		"no JSON":    func(path string, _ []byte) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"a bit":      func(path string, good []byte) error { return os.WriteFile(path, changed(good), 0o600) },
		"more after": func(path string, good []byte) error { return os.WriteFile(path, append(good, '{'), 0o600) },
		"too long": func(path string, good []byte) error {
			return os.WriteFile(path, append(good, bytes.Repeat([]byte(" "), collateral.MaxBundleSize)...), 0o600)
		},
		"a pipe": func(path string, _ []byte) error { return syscall.Mkfifo(path, 0o600) },
		"a link": func(path string, _ []byte) error { return os.Symlink("/dev/zero", path) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.open().Put(f.set(attestsim.Posture{}))
			good, err := os.ReadFile(f.file())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(f.file()); err != nil {
				t.Fatal(err)
			}
			if err := damage(f.file(), good); err != nil {
				t.Fatal(err)
			}
			c := f.open()
			if _, err := c.Bundle(context.Background(), attestsim.FMSPC()); err == nil {
				t.Fatal("it was read")
			}
			if !strings.Contains(f.log.String(), "cached collateral ignored") || !strings.Contains(f.log.String(), f.file()) {
				t.Errorf("log %q", &f.log)
			}
			c.Put(f.set(attestsim.Posture{}))
			f.wantNumber("replaced", "17")
		})
	}
}

// changed has another evaluation number under the signature of the old one.
func changed(good []byte) []byte {
	return bytes.Replace(good, []byte(`tcbEvaluationDataNumber\":17`), []byte(`tcbEvaluationDataNumber\":99`), 1)
}

func TestAnotherFamilysFileIsIgnored(t *testing.T) {
	f := newFolder(t)
	f.open().Put(f.set(attestsim.Posture{}))
	const other = "00000000ffff"
	if err := os.Rename(f.file(), filepath.Join(f.dir, other+".json")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.open().Bundle(context.Background(), other); err == nil {
		t.Error("read as another family")
	}
}

func TestAFailedWriteIsRetriedLater(t *testing.T) {
	f := newFolder(t)
	blocked := filepath.Dir(f.dir)
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, set := f.open(), f.set(attestsim.Posture{})
	c.Put(set)
	if !strings.Contains(f.log.String(), "collateral not cached") {
		t.Errorf("log %q", &f.log)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	c.Put(set)
	f.wantNumber("at once", "")
	f.now = f.now.Add(retryEvery)
	c.Put(set)
	f.wantNumber("a minute later", "17")
}

func TestTheFolderIsBounded(t *testing.T) {
	f := newFolder(t)
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range maxFiles {
		if err := os.WriteFile(filepath.Join(f.dir, strings.Repeat("x", i+1)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.open().Put(f.set(attestsim.Posture{}))
	f.wantNumber("a full folder", "")
	// A file that exists already is still replaced.
	if err := os.Rename(filepath.Join(f.dir, "x"), f.file()); err != nil {
		t.Fatal(err)
	}
	f.open().Put(f.set(attestsim.Posture{}))
	f.wantNumber("its own place", "17")
}
