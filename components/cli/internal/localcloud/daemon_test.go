package localcloud

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestStopEndsADaemonOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	pid, ended := begun(t, dir, ".")
	did, err := Stop(within(t, time.Minute), dir, self(t))
	if err != nil || !slices.Equal(did.Daemons, []int{pid}) || did.Killed {
		t.Fatalf("Stop = %+v, %v; want %d ended", did, err, pid)
	}
	<-ended
	// The daemon of this test leaves its cloud.json, as a killed one does.
	if did.Cleaned != "a daemon that died had left cloud.json" {
		t.Errorf("cleaned = %q", did.Cleaned)
	}
	if did, err := Stop(within(t, time.Minute), dir, self(t)); err != nil || did.Anything() {
		t.Errorf("Stop again = %+v, %v", did, err)
	}
}

func TestStopEndsADaemonThatIsStopped(t *testing.T) {
	dir := t.TempDir()
	pid, ended := begun(t, dir, dir)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if did, err := Stop(within(t, time.Minute), dir, self(t)); err != nil || !slices.Equal(did.Daemons, []int{pid}) || did.Killed {
		t.Fatalf("Stop = %+v, %v; want %d ended", did, err, pid)
	}
	<-ended
}

func TestStopKillsADaemonThatDoesNotListen(t *testing.T) {
	dir := t.TempDir()
	pid, ended := begun(t, dir, dir, "--deaf")
	did, err := Stop(within(t, time.Second), dir, self(t))
	if err != nil || !slices.Equal(did.Daemons, []int{pid}) || !did.Killed {
		t.Fatalf("Stop = %+v, %v; want %d killed", did, err, pid)
	}
	<-ended
}

func TestStopFindsADaemonWhoseFolderIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	pid, ended := begun(t, dir, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if did, err := Stop(within(t, time.Minute), dir, self(t)); err != nil || !slices.Equal(did.Daemons, []int{pid}) {
		t.Fatalf("Stop = %+v, %v; want %d ended", did, err, pid)
	}
	<-ended
}

func TestStopWithNothingThere(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "never")} {
		if did, err := Stop(within(t, time.Minute), dir, self(t)); err != nil || did.Anything() {
			t.Errorf("Stop = %+v, %v", did, err)
		}
	}
}

func TestStartKeepsADaemonOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	pid, _ := begun(t, dir, ".")
	info, began, err := Start(within(t, time.Minute), StartOptions{Dir: dir, Program: self(t)})
	if err != nil || began || info.APIKey != "key" {
		t.Fatalf("Start = %+v, %v, %v", info, began, err)
	}
	if got, err := holders(dir); err != nil || !slices.Equal(got, []int{pid}) {
		t.Errorf("daemons %v, %v; want %d", got, err, pid)
	}
}

func TestStartAfterADeath(t *testing.T) {
	dir := t.TempDir()
	pid, ended := begun(t, dir, dir)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
	stale, err := ReadInfo(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, began, err := Start(within(t, time.Minute), StartOptions{Dir: dir, Program: self(t)})
	if err != nil || !began || info.APIURL == stale.APIURL {
		t.Errorf("Start = %+v, %v, %v", info, began, err)
	}
	if _, err := Stop(within(t, time.Minute), dir, self(t)); err != nil {
		t.Error(err)
	}
}

func TestStartSaysWhyADaemonEnded(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(lockFile(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, err := Start(within(t, time.Minute), StartOptions{Dir: dir, Program: self(t)})
	if err == nil || !strings.Contains(err.Error(), "is a directory") || !strings.Contains(err.Error(), LogFile(dir)) {
		t.Errorf("error = %v", err)
	}
	if _, err := ReadInfo(dir); !errors.Is(err, ErrNotUp) || !strings.Contains(err.Error(), "CADRE_LOCAL_STATE") {
		t.Errorf("info: %v", err)
	}
}
