package command

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestHK04_NothingOfACommandOutlivesIt: neither what it left behind when it ended, nor
// what hangs past its time; and it says 64 KiB at most.
func TestHK04_NothingOfACommandOutlivesIt(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		limit  time.Duration
	}{
		"child left behind": {"sleep 600 >/dev/null 2>&1 &", time.Minute},
		"hangs":             {"sleep 600 & wait", 300 * time.Millisecond},
		"ignores SIGTERM":   {"trap '' TERM; sleep 600 >/dev/null 2>&1 & exit 0", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "held")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			held, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close() //nolint:errcheck // only read
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			// Whoever lives holds the other end of the pipe.
			_, _, err = Run(ctx, []string{"sh", "-c", "exec 3>" + fifo + "; " + c.script}, nil)
			if hung := errors.Is(err, context.DeadlineExceeded); hung != (name == "hangs") {
				t.Errorf("run: %v", err)
			}
			if err := held.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(held); err != nil {
				t.Errorf("something lives on: %v", err)
			}
		})
	}
	_, output, err := Run(t.Context(), []string{"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"}, nil)
	if err != nil || len(output) != outputLimit {
		t.Errorf("%d bytes of output, %v", len(output), err)
	}
}
