package workloadfiles

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cadre.dev/core/secret"
	"cadre.dev/core/secret/secrettest"
)

func value(text string, epoch uint32) Secret {
	return Secret{Value: secret.FromString(text), Epoch: epoch}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TOK-16: secrets are refused a folder that is on a disk.
func TestTOK16_FolderOnADiskIsRefused(t *testing.T) {
	if err := InMemory(secrettest.MemoryDir(t)); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	if err := InMemory(dir); err == nil {
		t.Skip("the temporary folder is in memory here")
	}
	if _, err := Open(dir, 0, ""); err == nil || !strings.Contains(err.Error(), "driver_opts") {
		t.Errorf("open = %v; want a refusal with the way out", err)
	}
}

// TOK-16: a disk mounted inside of the folder counts as a disk, too.
func TestTOK16_SecretsFolderOnADiskIsRefused(t *testing.T) {
	disk := t.TempDir()
	if err := InMemory(disk); err == nil {
		t.Skip("the temporary folder is in memory here")
	}
	dir := secrettest.MemoryDir(t)
	inside := filepath.Join(dir, secretsFolder)
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(disk, inside, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(inside, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	if _, err := Open(dir, 0, ""); err == nil || !strings.Contains(err.Error(), inside+" is not in memory") {
		t.Errorf("open = %v; want a refusal of %s", err, inside)
	}
}

// TOK-16: owner and mode are as declared under any umask, from the moment that the
// file has its name.
func TestTOK16_TOK19_OwnerAndModeWithAnyUmask(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to give files away")
	}
	for _, umask := range []int{0o000, 0o022, 0o077, 0o777} {
		old := syscall.Umask(umask)
		dir := secrettest.MemoryDir(t)
		f, err := Open(dir, 70, "sh")
		if err == nil {
			info := testInfo()
			info.Secrets = map[string]Secret{
				"plain": value("a", 1),
				"owned": {Value: secret.FromString("b"), Epoch: 1, Mode: 0o600, UID: 999, GID: 998},
			}
			err = f.Write(info)
		}
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]struct {
			mode     fs.FileMode
			uid, gid uint32
		}{
			"secrets/plain": {0o440, 0, 70}, "secrets/owned": {0o600, 999, 998}, "consul-token": {0o440, 0, 70},
			"secrets": {fs.ModeDir | 0o755, 0, 0}, "secret-epochs.json": {0o644, 0, 0}, "exec": {0o755, 0, 0},
		} {
			st, err := os.Lstat(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			sys := st.Sys().(*syscall.Stat_t)
			if st.Mode() != want.mode || sys.Uid != want.uid || sys.Gid != want.gid {
				t.Errorf("umask %03o: %s is %v %d:%d, want %v %d:%d", umask, path, st.Mode(), sys.Uid, sys.Gid, want.mode, want.uid, want.gid)
			}
		}
	}
}

// INP-11: an unexpected object in place of a file is replaced and not followed, and a replaced
// folder is rejected.
func TestINP11_NothingIsFollowedOutOfTheFolder(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	for name, plant := range map[string]func(path string) error{
		"symlink":          func(path string) error { return os.Symlink(victim, path) },
		"hard link":        func(path string) error { return os.Link(filepath.Join(filepath.Dir(path), "..", "env"), path) },
		"pipe":             func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"file of anybody":  func(path string) error { return os.WriteFile(path, []byte("x"), 0o666) },
		"dangling symlink": func(path string) error { return os.Symlink("../../nowhere", path) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := secrettest.MemoryDir(t)
			f, err := Open(dir, 0, "")
			if err != nil {
				t.Fatal(err)
			}
			info := testInfo()
			info.Secrets = nil
			if err := f.Write(info); err != nil {
				t.Fatal(err)
			}
			env := read(t, dir, "env")
			if err := plant(filepath.Join(dir, "secrets/password")); err != nil {
				t.Fatal(err)
			}
			info.Secrets = map[string]Secret{"password": value("s3cret", 1)}
			if err := f.Write(info); err != nil {
				t.Fatal(err)
			}
			st, err := os.Lstat(filepath.Join(dir, "secrets/password"))
			if err != nil || !st.Mode().IsRegular() || st.Mode().Perm() != 0o400 || read(t, dir, "secrets/password") != "s3cret" {
				t.Errorf("the secret is %v, %v", st, err)
			}
			if read(t, victim) != "untouched" || read(t, dir, "env") != env {
				t.Error("another file was written through it")
			}
		})
	}
	t.Run("a folder where the secret belongs", func(t *testing.T) {
		dir := secrettest.MemoryDir(t)
		f, err := Open(dir, 0, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "secrets/password/deep"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := f.Write(testInfo()); err == nil {
			t.Error("it was written")
		}
	})
	t.Run("the folder itself is a symlink", func(t *testing.T) {
		dir, outside := secrettest.MemoryDir(t), secrettest.MemoryDir(t)
		f, err := Open(dir, 0, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "secrets"), filepath.Join(dir, "moved")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(dir, "secrets")); err != nil {
			t.Fatal(err)
		}
		if err := f.Write(testInfo()); err == nil || !strings.Contains(err.Error(), "PATH_ESCAPE") {
			t.Errorf("write = %v", err)
		}
		if left, _ := os.ReadDir(outside); len(left) > 0 {
			t.Errorf("files outside: %v", left)
		}
		if _, err := Open(dir, 0, ""); err == nil {
			t.Error("a folder with a link for its secrets is taken over")
		}
	})
}

// A rotation replaces the file, then publishes the new epoch, and removes each secret that is no
// longer declared.
func TestSecretsFollowTheirDeclaration(t *testing.T) {
	dir := secrettest.MemoryDir(t)
	f, err := Open(dir, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	info := testInfo()
	info.Secrets = map[string]Secret{"a": value("one", 1), "b": value("two", 1)}
	if err := f.Write(info); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(dir, "secrets/a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secrets/.a.leftover"), []byte("of a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	info.Secrets = map[string]Secret{"a": value("one", 1), "c": value("three", 7)}
	if err := f.Write(info); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "secrets"))
	if err != nil || len(entries) != 2 || entries[0].Name() != "a" || entries[1].Name() != "c" {
		t.Errorf("secrets = %v, %v", entries, err)
	}
	if after, err := os.Stat(filepath.Join(dir, "secrets/a")); err != nil || !os.SameFile(before, after) {
		t.Errorf("a secret that did not change was written again: %v", err)
	}
	if got := read(t, dir, "secret-epochs.json"); got != `{"a":1,"c":7}`+"\n" {
		t.Errorf("epochs = %s", got)
	}
	info.Secrets = map[string]Secret{"a": {Value: secret.FromString("x"), Epoch: 2, Mode: 0o644}}
	if err := f.Write(info); err == nil || strings.Contains(err.Error(), "x ") {
		t.Errorf("a mode that lets all read: %v", err)
	}
	if got := read(t, dir, "secrets/a"); got != "one" {
		t.Errorf("a refused secret was written: %s", got)
	}
}
