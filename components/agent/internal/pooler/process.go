package pooler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// endWithin bounds how long PgBouncer may take to end after the signal; normally it ends at
	// once.
	endWithin = 2 * time.Second
	// lookForEnd paces the looks at a process that is not this one's child.
	lookForEnd = 100 * time.Millisecond
	// enoughFiles are for both sides of maxClients, and more.
	enoughFiles = 8192
)

// process is one PgBouncer.
type process struct {
	pid    int
	handle *os.Process
	// done is closed when it has ended.
	done chan struct{}
}

// start runs PgBouncer in a session of its own, so that it outlives this process.
func (c Config) start() (*process, error) {
	binary := c.Binary
	if binary == "" {
		binary = "pgbouncer"
	}
	path, err := exec.LookPath(binary)
	if err != nil {
		return nil, fmt.Errorf("start pgbouncer: %w", err)
	}
	// A killed PgBouncer leaves these files. The next one would take any process with the old pid
	// for another PgBouncer.
	_ = os.Remove(c.folder().pid())
	_ = os.Remove(c.folder().socket(c.Address.Port()))
	// In this mode PgBouncer neither blocks on a log without a reader, nor ends with its reader.
	pipe, err := syscall.Open(c.folder().path(logPipe), syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start pgbouncer: open its log: %w", err)
	}
	defer syscall.Close(pipe) //nolint:errcheck // the child has its own
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("start pgbouncer: %w", err)
	}
	defer null.Close() //nolint:errcheck // the child has its own
	attr := &syscall.ProcAttr{
		Dir: "/", Env: []string{"LC_ALL=C", "TZ=UTC"},
		Files: []uintptr{null.Fd(), uintptr(pipe), uintptr(pipe)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if uid, gid := c.owner(); uid >= 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	pid, err := syscall.ForkExec(path, []string{path, c.folder().path(iniFile)}, attr)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	handle, err := os.FindProcess(pid) // it is there until it is waited for
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	p := &process{pid: pid, handle: handle, done: make(chan struct{})}
	if p.openFiles() < enoughFiles {
		// This process raised its own limit; children do not inherit it. Setting it takes a
		// capability; without the capability, the check of openFiles reports the low limit.
		_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: enoughFiles, Max: enoughFiles}, nil)
	}
	go func() {
		defer close(p.done)
		_, _ = handle.Wait()
	}()
	return p, nil
}

// openFiles is how many p may have open; 0: not known.
func (p *process) openFiles() int {
	limits, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/limits")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(limits), "Max open files")
	soft, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	n, err := strconv.Atoi(soft)
	if err != nil {
		return 0
	}
	return n
}

// running finds a PgBouncer that runs with this configuration's file already; nil: none.
func (c Config) running() *process {
	pid := c.folder().readPID()
	if pid == 0 {
		return nil
	}
	handle, err := os.FindProcess(pid) // looked at after that: it stays the same process
	if err != nil || !c.owns(pid) || handle.Signal(syscall.Signal(0)) != nil {
		return nil
	}
	return &process{pid: pid, handle: handle, done: make(chan struct{})}
}

// owns reports whether pid is a PgBouncer with this configuration's file, independent of the source
// of the pid.
func (c Config) owns(pid int) bool {
	at := "/proc/" + strconv.Itoa(pid)
	argv, err := os.ReadFile(at + "/cmdline")
	if err != nil || !bytes.HasSuffix(argv, []byte("\x00"+c.folder().path(iniFile)+"\x00")) {
		return false
	}
	info, err := os.Stat(at)
	if err != nil {
		return false
	}
	uid, _ := c.owner()
	if uid < 0 {
		uid = os.Geteuid()
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(of.Uid) == uid
}

// watch closes done when p has ended, which is another's child; it returns then or when ctx
// ends.
func (p *process) watch(ctx context.Context) {
	tick := time.NewTicker(lookForEnd)
	defer tick.Stop()
	for {
		if p.handle.Signal(syscall.Signal(0)) != nil {
			close(p.done)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return p.handle.Signal(syscall.Signal(0)) != nil
	}
}

// end ends p, and returns when it has.
func (p *process) end() error {
	_ = p.handle.Signal(syscall.SIGTERM)
	if p.gone(endWithin) {
		return nil
	}
	_ = p.handle.Signal(syscall.SIGKILL)
	if p.gone(endWithin) {
		return nil
	}
	return errors.New("pgbouncer does not end when it is killed")
}

func (p *process) gone(within time.Duration) bool {
	tick := time.NewTicker(lookForEnd / 20)
	defer tick.Stop()
	late := time.NewTimer(within)
	defer late.Stop()
	for !p.ended() {
		select {
		case <-p.done:
		case <-tick.C:
		case <-late.C:
			return false
		}
	}
	return true
}
