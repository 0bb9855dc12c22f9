package localcloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// The test binary is also a daemon's program, without a cloud behind it.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 3 && os.Args[1] == "serve":
		err = serve(os.Args[3], slices.Contains(os.Args, "--deaf"))
	case len(os.Args) > 3 && os.Args[1] == "cleanup":
		err = leave(os.Args[3])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve holds the lock of dir and answers; a deaf one does not hear SIGTERM.
func serve(dir string, deaf bool) error {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	raw, err := json.Marshal(Info{APIURL: api.URL + "/api/v1", APIKey: "key"})
	if err != nil {
		return err
	}
	if err := os.WriteFile(CloudFile(dir)+".tmp", raw, 0o600); err != nil {
		return err
	}
	if err := os.Rename(CloudFile(dir)+".tmp", CloudFile(dir)); err != nil {
		return err
	}
	for range asked {
		if !deaf {
			return nil
		}
	}
	return nil
}

// leave removes cloud.json and says so.
func leave(dir string) error {
	if err := os.Remove(CloudFile(dir)); err == nil {
		fmt.Println("a daemon that died had left cloud.json")
	}
	return nil
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// begun starts a daemon like another user, on a folder under its own name, and waits until it is
// ready. ended is closed when it is gone.
func begun(t *testing.T, dir, name string, flags ...string) (pid int, ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command(self(t), append([]string{"serve", "--state", name}, flags...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-gone })
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := ReadInfo(dir); err == nil {
			return cmd.Process.Pid, gone
		}
		select {
		case <-gone:
			t.Fatal("the daemon ended")
		case <-tick.C:
		}
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
