package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

const (
	holderAddr = "STORETEST_HOLDER_ADDR"
	holderKeys = "STORETEST_HOLDER_PREFIX"
)

// TestHolderProcess is not a test: it is the process of a leader, started by the tests below. It
// takes the lease and then makes a fenced write for each line that it reads.
func TestHolderProcess(t *testing.T) {
	addr := os.Getenv(holderAddr)
	if addr == "" {
		return
	}
	c := newConsul(t, store.ConsulConfig{Address: addr, Prefix: os.Getenv(holderKeys), SessionTTL: storetest.SessionTTL})
	lease, err := store.AcquireBlocking(t.Context(), c, "child", nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("> held", lease.Term())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		remaining := lease.Remaining()
		err := c.Commit(t.Context(), append(lease.Fence(), store.Op{Kind: store.OpPut, Key: "a", Value: lines.Bytes()})...)
		fmt.Printf("> sure=%v fenced=%v error=%v\n", remaining > 0, errors.Is(err, store.ErrFenced), err)
	}
}

// holder is a running TestHolderProcess.
type holder struct {
	*exec.Cmd
	stdin io.Writer
	out   *bufio.Scanner
}

func startHolder(t *testing.T, addr, prefix string) *holder {
	t.Helper()
	h := &holder{Cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolderProcess$")}
	h.Env = append(os.Environ(), holderAddr+"="+addr, holderKeys+"="+prefix)
	stdin, err := h.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := h.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.stdin, h.out = stdin, bufio.NewScanner(stdout)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.Process.Kill()
		_ = h.Wait()
	})
	if line := h.line(); line != "> held 1" {
		t.Fatalf("the holder says %q", line)
	}
	return h
}

// line returns the next output line of the holder.
func (h *holder) line() string {
	for h.out.Scan() {
		if strings.HasPrefix(h.out.Text(), "> ") {
			return h.out.Text()
		}
	}
	return ""
}

func (h *holder) write(t *testing.T, value string) string {
	t.Helper()
	if _, err := fmt.Fprintln(h.stdin, value); err != nil {
		t.Fatal(err)
	}
	return h.line()
}

func (h *holder) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := h.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// TestCTL01_CTL02_PLT13_StoppedProcessCannotWrite stops a leader's process, lets another take over,
// and then resumes the first.
func TestCTL01_CTL02_PLT13_StoppedProcessCannotWrite(t *testing.T) {
	addr, _ := storetest.StartConsul(t)
	prefix := storetest.NewPrefix()
	h := startHolder(t, addr, prefix)
	if got := h.write(t, "before"); got != "> sure=true fenced=false error=<nil>" {
		t.Fatalf("the holder says %q", got)
	}
	h.signal(t, syscall.SIGSTOP)
	c := storetest.ConsulAt(t, addr, "", prefix)
	next := takeOver(t, c)
	defer release(t, next)
	if err := c.Commit(t.Context(), append(next.Fence(), store.Op{Kind: store.OpPut, Key: "a", Value: []byte("next")})...); err != nil {
		t.Fatal(err)
	}
	h.signal(t, syscall.SIGCONT)
	if got := h.write(t, "stale"); !strings.HasPrefix(got, "> sure=false fenced=true") {
		t.Errorf("the old holder says %q", got)
	}
	if entry, err := c.Get(t.Context(), "a"); err != nil || string(entry.Value) != "next" {
		t.Errorf("got %q, %v, want %q", entry.Value, err, "next")
	}
}

// TestKilledProcessIsReplacedAtOnce runs the supervisor's reaction to a dead leader.
func TestKilledProcessIsReplacedAtOnce(t *testing.T) {
	addr, _ := storetest.StartConsul(t)
	prefix := storetest.NewPrefix()
	h := startHolder(t, addr, prefix)
	c := storetest.ConsulAt(t, addr, "", prefix)
	h.signal(t, syscall.SIGKILL)
	if err := h.Wait(); err == nil {
		t.Fatal("the holder ended well")
	}
	died := time.Now()
	if did, err := c.DestroyHolderSession(t.Context(), "child"); !did || err != nil {
		t.Fatalf("destroy: %v, %v", did, err)
	}
	next := takeOver(t, c)
	defer release(t, next)
	if took := time.Since(died); took > storetest.SessionTTL/2 {
		t.Errorf("the takeover took %v", took)
	} else {
		t.Logf("the takeover took %v", took)
	}
}

func takeOver(t *testing.T, s store.Store) store.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	next, err := store.AcquireBlocking(ctx, s, "next", nil)
	if err != nil {
		t.Fatal(err)
	}
	if next.Term() != 2 {
		t.Errorf("term %d, want 2", next.Term())
	}
	return next
}

func release(t *testing.T, lease store.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
}
