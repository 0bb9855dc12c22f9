package imagestore

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/local/internal/imagetest"
)

// TestMain is another process that unpacks an image on request.
func TestMain(m *testing.M) {
	dir, hex := os.Getenv("STORE_TEST_DIR"), os.Getenv("STORE_TEST_HEX")
	if dir == "" {
		os.Exit(m.Run())
	}
	s := &Store{dir: dir}
	_, err := s.tryLock(hex)
	if err == nil {
		err = os.MkdirAll(filepath.Join(s.unfinished(hex), rootDir, "half"), 0o700)
	}
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("unpacks\n")
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // until it is killed or the test ends
}

// unpacking starts a process that is half through unpacking an image.
func unpacking(t *testing.T, dir, hex string) (kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_DIR="+dir, "STORE_TEST_HEX="+hex)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "unpacks\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = in.Close()
	}
}

// TestOneProcessUnpacksAnImage: another or a starting process waits for it and leaves its files
// alone; after a kill, the next one replaces its remains.
func TestOneProcessUnpacksAnImage(t *testing.T) {
	s := newSite(t)
	digest := imagetest.Add(t, s.layout, "cadre-app:1", small(t, "hello"))
	hex := strings.TrimPrefix(digest, "sha256:")
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	kill := unpacking(t, s.dir, hex)
	defer kill()
	store := s.store(t)
	half := filepath.Join(store.unfinished(hex), rootDir, "half")
	if _, err := os.Stat(half); err != nil {
		t.Errorf("a start removed what another process unpacks: %v", err)
	}
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	if _, err := store.Ensure(given, "cadre-app@"+digest); !errors.Is(err, context.Canceled) || s.pulls.Load() > 0 {
		t.Errorf("while another process is at it: %v after %d pulls", err, s.pulls.Load())
	}
	if _, err := os.Stat(half); err != nil {
		t.Errorf("who waits removed what another process unpacks: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := store.Ensure(t.Context(), "cadre-app@"+digest)
		done <- err
	}()
	kill()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, hex, rootDir, "half")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the image has what a killed process had unpacked: %v", err)
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 1 {
		t.Errorf("the store holds %v, %v", entries, err)
	}
}

// TestAStartSweeps removes the remains of dead processes, in any state.
func TestAStartSweeps(t *testing.T) {
	s := newSite(t)
	digest := imagetest.Add(t, s.layout, "cadre-app:1", small(t, "hello"))
	hex := strings.TrimPrefix(digest, "sha256:")
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	unpacking(t, s.dir, hex)()
	if err := os.WriteFile(filepath.Join(s.dir, lockPrefix+"of-another"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	store := s.store(t)
	s.empty(t)
	// Half removed: no record, and files of the image in its place.
	if err := os.MkdirAll(filepath.Join(s.dir, hex, rootDir, "half"), 0o700); err != nil {
		t.Fatal(err)
	}
	img, err := store.Ensure(t.Context(), "cadre-app@"+digest)
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(img.Root); err != nil || len(entries) != 2 {
		t.Errorf("the image has %v, %v", entries, err)
	}
}
