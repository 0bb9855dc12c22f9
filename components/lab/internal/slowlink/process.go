package slowlink

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// marker in the environment makes this program the links' process. The control
// socket is its file descriptor 3.
const (
	marker    = "CADRE_SLOWLINK"
	controlFD = 3
	maxOrder  = 64 << 10
)

func init() {
	if os.Getenv(marker) == "" {
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "slowlink:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type verb string

const (
	// add starts a link; its two descriptors come with the order.
	add verb = "add"
	// set changes both directions of a link.
	set verb = "set"
	// remove ends a link.
	remove verb = "remove"
	// count answers a link's counters.
	count verb = "count"
)

type order struct {
	Verb   verb   `json:"verb"`
	Link   string `json:"link"`
	Params Params `json:"params"`
	Seed   uint64 `json:"seed"`
}

type answer struct {
	Error string `json:"error,omitempty"`
	Stats Stats  `json:"stats"`
}

// Stats are one link's counters and the CPU time of all links' process.
type Stats struct {
	// AtoB and BtoA are the directions, by the order of the ends given to Add.
	AtoB, BtoA LineStats
	// CPU is user and system time since the process began, including the kernel's work to
	// carry its writes.
	CPU time.Duration
}

// Process runs links. Safe for concurrent use.
type Process struct {
	cmd *exec.Cmd

	mu   sync.Mutex // one order at a time
	conn *net.UnixConn
}

// Start starts the process. It ends with Close, or when this program ends.
func Start() (*Process, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer ours.Close()
	defer theirs.Close()
	conn, err := unixConn(ours)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe") //nolint:noctx // it ends with its standard input
	cmd.Args = []string{"slowlink"}
	cmd.Env = []string{marker + "=1", "GOGC=400"}
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	// A signal from the terminal is for this program, which then ends the links in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start link process: %w", err), conn.Close())
	}
	return &Process{cmd: cmd, conn: conn}, nil
}

func unixConn(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("open control socket: it is no unix socket"), c.Close())
	}
	return u, nil
}

// Close ends every link and the process.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		return nil
	}
	err := p.conn.Close()
	p.conn = nil
	return errors.Join(err, p.cmd.Wait())
}

// Add starts a link between two TUN descriptors, which it closes here in every
// case. seed makes its losses repeatable.
func (p *Process) Add(name string, params Params, a, b int, seed uint64) error {
	defer unix.Close(a)
	defer unix.Close(b)
	_, err := p.ask(order{Verb: add, Link: name, Params: params, Seed: seed}, a, b)
	return err
}

// Set changes a link.
func (p *Process) Set(name string, params Params) error {
	_, err := p.ask(order{Verb: set, Link: name, Params: params})
	return err
}

// Remove ends a link; both its interfaces are gone afterwards.
func (p *Process) Remove(name string) error {
	_, err := p.ask(order{Verb: remove, Link: name})
	return err
}

// Stats reads a link's counters; with name "" only the CPU time.
func (p *Process) Stats(name string) (Stats, error) {
	a, err := p.ask(order{Verb: count, Link: name})
	return a.Stats, err
}

func (p *Process) ask(o order, fds ...int) (answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var a answer
	if p.conn == nil {
		return a, errors.New("the link process has ended")
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return a, fmt.Errorf("encode order: %w", err)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := p.conn.WriteMsgUnix(raw, rights, nil); err != nil {
		return a, fmt.Errorf("%s link %s: %w", o.Verb, o.Link, err)
	}
	buf := make([]byte, maxOrder)
	n, err := p.conn.Read(buf)
	if err != nil {
		return a, fmt.Errorf("%s link %s: %w", o.Verb, o.Link, err)
	}
	if err := json.Unmarshal(buf[:n], &a); err != nil {
		return a, fmt.Errorf("%s link %s: %w", o.Verb, o.Link, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s link %s: %s", o.Verb, o.Link, a.Error)
	}
	return a, nil
}
