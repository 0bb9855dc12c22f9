package durable

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

// filled returns a file system of one block that is full, or skips.
func filled(t *testing.T) (dir string, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("skipped: a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, fill(t, dir)
}

// fill takes all of dir's space; free gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // nothing in it counts
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskIsAFaultUntilItTakesWritesAgain(t *testing.T) {
	dir, free := filled(t)
	synctest.Test(t, func(t *testing.T) {
		d := OpenDisk(dir, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		for _, v := range []string{"older", "newer"} {
			if err := d.Put("a.json", v); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("a full disk took %s: %v", v, err)
			}
		}
		time.Sleep(2 * retryEvery)
		synctest.Wait()
		if got := d.Faults(); len(got) != 1 || !strings.Contains(got[0], "a.json: no space left on device") {
			t.Errorf("faults %q", got)
		}
		free()
		time.Sleep(2 * retryEvery)
		synctest.Wait()
		var v string
		if found, err := d.Read("a.json", 100, &v); !found || err != nil || v != "newer" || len(d.Faults()) != 0 {
			t.Errorf("after the disk has room: %q, %t, %v, faults %q", v, found, err, d.Faults())
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) != 0 {
			t.Errorf("half-written files are left: %q", left)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAReadOnlyDiskIsAFault(t *testing.T) {
	dir, free := filled(t)
	free()
	d := OpenDisk(dir, slog.New(slog.DiscardHandler))
	if err := d.Put("a.json", 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := d.Put("a.json", 2); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a read-only disk took a write: %v", err)
	}
	var v int
	if found, err := d.Read("a.json", 100, &v); !found || err != nil || v != 1 {
		t.Errorf("read %d, %t, %v", v, found, err)
	}
	if got := d.Faults(); len(got) != 1 || !strings.Contains(got[0], "read-only file system") {
		t.Errorf("faults %q", got)
	}
}

// TestAHangingWriteIsReported: the hanging write is reported, also while other callers wait for
// it.
func TestAHangingWriteIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, free := OpenDisk(t.TempDir(), slog.New(slog.DiscardHandler)), make(chan struct{})
		d.write = func(string, []byte) error { <-free; return nil }
		if d.Writing() {
			t.Error("it writes nothing yet")
		}
		go func() { _ = d.Put("a", 1) }()
		synctest.Wait()
		if !d.Writing() {
			t.Error("a hanging write is not reported")
		}
		close(free)
		synctest.Wait()
		if d.Writing() {
			t.Error("the write ended")
		}
	})
}
