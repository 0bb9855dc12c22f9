package certificate

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSelfSignedIsKept(t *testing.T) {
	dir, now, log := t.TempDir(), time.Now(), slog.New(slog.DiscardHandler)
	first, err := SelfSigned(dir, []string{"relay.example", "198.51.100.7"}, now, log)
	if err != nil {
		t.Fatal(err)
	}
	again, err := SelfSigned(dir, []string{"relay.example"}, now, log)
	if err != nil || !bytes.Equal(again.CA, first.CA) {
		t.Errorf("a second start made another certificate, error %v", err)
	}
	if other, err := SelfSigned(dir, []string{"other.example"}, now, log); err != nil || bytes.Equal(other.CA, first.CA) {
		t.Errorf("another name has the same certificate, error %v", err)
	}
	if late, err := SelfSigned(dir, []string{"other.example"}, now.Add(selfSignedLife), log); err != nil || bytes.Equal(late.CA, first.CA) {
		t.Errorf("an old certificate was kept, error %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, keyName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key: %v, error %v", info.Mode(), err)
	}
	memory, err := SelfSigned("", []string{"relay.example"}, now, log)
	if err != nil || len(memory.CA) == 0 {
		t.Errorf("without a directory: error %v", err)
	}
}

func TestAnInterruptedStartIsRepaired(t *testing.T) {
	dir, now, log := t.TempDir(), time.Now(), slog.New(slog.DiscardHandler)
	names := []string{"relay.example"}
	first, err := SelfSigned(dir, names, now, log)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, keyName))
	if err != nil {
		t.Fatal(err)
	}
	late := now.Add(selfSignedLife - selfSignedRenew + time.Hour)
	renewed, err := SelfSigned(dir, names, late, log)
	if err != nil || bytes.Equal(renewed.CA, first.CA) {
		t.Fatalf("the certificate was not renewed, error %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, keyName)); err != nil || !bytes.Equal(after, key) {
		t.Errorf("the key was not kept, error %v", err)
	}

	other := t.TempDir()
	if _, err := SelfSigned(other, names, now, log); err != nil {
		t.Fatal(err)
	}
	otherKey, err := os.ReadFile(filepath.Join(other, keyName))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"another's key": otherKey, "no key": nil, "half a key": key[:len(key)/2]} {
		if err := os.WriteFile(filepath.Join(dir, keyName), content, 0o600); err != nil {
			t.Fatal(err)
		}
		mended, err := SelfSigned(dir, names, now, log)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again, err := SelfSigned(dir, names, now, log); err != nil || !bytes.Equal(again.CA, mended.CA) {
			t.Errorf("%s: not mended for good, error %v", name, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%d files are left, want 2, error %v", len(files), err)
	}
}

func TestFilesAreReadAgain(t *testing.T) {
	dir, now, log := t.TempDir(), time.Now(), slog.New(slog.DiscardHandler)
	if _, err := SelfSigned(dir, []string{"a.example"}, now, log); err != nil {
		t.Fatal(err)
	}
	s, err := Load(filepath.Join(dir, certName), filepath.Join(dir, keyName), log)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := s.Get(nil)
	if s.CA != nil {
		t.Error("a certificate from files is not ours to give away")
	}
	if _, err := SelfSigned(dir, []string{"b.example"}, now, log); err != nil {
		t.Fatal(err)
	}
	s.Refresh()
	after, _ := s.Get(nil)
	if bytes.Equal(before.Certificate[0], after.Certificate[0]) {
		t.Error("the new certificate is not used")
	}
	if err := os.WriteFile(filepath.Join(dir, certName), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Refresh()
	if still, _ := s.Get(nil); !bytes.Equal(still.Certificate[0], after.Certificate[0]) {
		t.Error("a broken file took the good certificate away")
	}
	if _, err := Load(filepath.Join(dir, "none"), filepath.Join(dir, "none"), log); err == nil {
		t.Error("missing files are no error")
	}
}
