package netspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Space is one network namespace. Safe for concurrent use.
type Space struct {
	ns netns.NsHandle
	nl *netlink.Handle
}

// New makes a namespace: loopback up, IPv6 only on loopback, no forwarding and no reverse
// path filter regardless of the host, and the given settings, by their path below
// /proc/sys. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
func New(settings map[string]string) (*Space, error) {
	ns, err := unshare(func() error {
		all := map[string]string{
			"net/ipv4/ip_forward": "0", "net/ipv6/conf/default/disable_ipv6": "1",
			"net/ipv4/conf/all/rp_filter": "0", "net/ipv4/conf/default/rp_filter": "0",
		}
		for name, value := range settings {
			all[name] = value
		}
		return set(all)
	})
	if err != nil {
		return nil, fmt.Errorf("make network namespace: %w", err)
	}
	s, err := Adopt(ns)
	if err != nil {
		ns.Close()
		return nil, err
	}
	if err := s.Up("lo"); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Adopt makes a Space of an open namespace, which it then owns.
func Adopt(ns netns.NsHandle) (*Space, error) {
	nl, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &Space{ns: ns, nl: nl}, nil
}

// Close lets go of the namespace.
func (s *Space) Close() error {
	s.nl.Close()
	return s.ns.Close()
}

// Fd is the namespace, for reading its identity and for entering it. It belongs
// to the Space.
func (s *Space) Fd() int { return int(s.ns) }

// Inside runs do on a thread that is in the namespace. do must not start
// goroutines that are meant to be there too. Sockets and processes made by do
// stay there.
func (s *Space) Inside(do func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("get current namespace: %w", err)
	}
	defer home.Close()
	if err := netns.Set(s.ns); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter namespace: %w", err)
	}
	err = do()
	if back := netns.Set(home); back != nil {
		// The thread stays locked, so the runtime ends it with its goroutine instead of
		// reusing it in the wrong namespace.
		return errors.Join(err, fmt.Errorf("leave namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

// Set writes kernel settings, by their path below /proc/sys.
func (s *Space) Set(settings map[string]string) error {
	return s.Inside(func() error { return set(settings) })
}

// Rules loads nftables rules, as the nft program reads them; all or nothing.
func (s *Space) Rules(rules string) error {
	_, err := s.nft(rules, "-f", "-")
	return err
}

// ListRules returns the output of "nft ARGS".
func (s *Space) ListRules(args ...string) ([]byte, error) { return s.nft("", args...) }

func (s *Space) nft(input string, args ...string) ([]byte, error) {
	var out strings.Builder
	var problems strings.Builder
	cmd := exec.Command("nft", args...) //nolint:noctx // short, and must not be left half done
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &problems
	// Only the start happens on the thread inside; Wait may take any.
	err := s.Inside(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("nft is not on PATH: install nftables: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return []byte(out.String()), nil
}

// ForgetConnections empties the connection tracker.
func (s *Space) ForgetConnections() error {
	if err := s.nl.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		return fmt.Errorf("empty connection tracker: %w", err)
	}
	return nil
}

// unshare makes a namespace and runs prepare inside it. The thread goes back home
// afterwards: a thread left behind would keep the namespace alive, and if it were
// the process's first one, /proc/<pid> would show the wrong network.
func unshare(prepare func() error) (netns.NsHandle, error) {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return netns.None(), fmt.Errorf("get current namespace: %w", err)
	}
	defer home.Close()
	ns, err := netns.New()
	if err != nil {
		runtime.UnlockOSThread()
		return netns.None(), err
	}
	err = prepare()
	if back := netns.Set(home); back != nil {
		return netns.None(), errors.Join(err, fmt.Errorf("leave namespace: %w", back), ns.Close())
	}
	runtime.UnlockOSThread()
	if err != nil {
		ns.Close()
	}
	return ns, err
}

// set writes settings of the namespace that the thread is in, and reads them back.
func set(settings map[string]string) error {
	for name, value := range settings {
		path := filepath.Join("/proc/sys", name)
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(name, "net/ipv6/") {
				continue // a kernel without IPv6
			}
			return fmt.Errorf("set %s: %w", name, err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if strings.TrimSpace(string(got)) != value {
			return fmt.Errorf("set %s to %s: it still is %q", name, value, got)
		}
	}
	return nil
}

// Thread is an operating system thread that stays in a namespace, to start
// processes from: those with Pdeathsig live as long as the thread.
type Thread struct {
	work chan func()
	gone chan struct{}
}

// Thread starts one.
func (s *Space) Thread() (*Thread, error) {
	t := &Thread{work: make(chan func()), gone: make(chan struct{})}
	ready := make(chan error)
	go t.run(s, ready)
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("enter namespace: %w", err)
	}
	return t, nil
}

func (t *Thread) run(s *Space, ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// /proc/<pid> shows the process's first thread, which never ends: take another
		// thread, and lock it before the first one is released.
		inner := make(chan error)
		go t.run(s, inner)
		err := <-inner
		runtime.UnlockOSThread()
		ready <- err
		return
	}
	defer close(t.gone)
	err := netns.Set(s.ns)
	ready <- err
	if err != nil {
		return
	}
	// Never unlocked: the thread ends with this goroutine.
	for f := range t.work {
		f()
	}
}

// Do runs f on the thread.
func (t *Thread) Do(f func() error) (err error) {
	done := make(chan struct{})
	t.work <- func() { defer close(done); err = f() }
	<-done
	return err
}

// Close ends the thread. Do must not be called any more.
func (t *Thread) Close() {
	close(t.work)
	<-t.gone
}
