package place

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Host is a network namespace. It lasts until Close and until the last process
// in it has ended.
type Host struct {
	ns *os.File
}

// newHost makes a namespace with nothing but a loopback that is down.
func newHost() (*Host, error) {
	var h Host
	err := onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace: %w", err)
		}
		ns, err := os.Open(threadNamespace)
		if err != nil {
			return fmt.Errorf("open network namespace: %w", err)
		}
		h.ns = ns
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &h, nil
}

const threadNamespace = "/proc/thread-self/ns/net"

// Start starts cmd in the namespace.
func (h *Host) Start(cmd *exec.Cmd) error {
	return onOwnThread(func() error {
		if err := unix.Setns(int(h.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return cmd.Start()
	})
}

// Close gives the namespace up.
func (h *Host) Close() error { return h.ns.Close() }

// ip runs the command ip in the namespace.
func (h *Host) ip(ctx context.Context, args ...string) error {
	return Run(ctx, h, "ip", args...)
}

// onOwnThread runs f on a thread that f may move to another namespace. The
// thread ends with f: the runtime never gets it back.
func onOwnThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends here
		result <- f()
	}()
	return <-result
}
