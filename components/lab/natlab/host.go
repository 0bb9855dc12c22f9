package natlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"

	"cadre.dev/lab/netspace"
)

// Host is a machine in a Lab. Safe for concurrent use.
type Host struct {
	// constant after it was added
	name   string
	lab    *Lab
	number int
	space  *netspace.Space
	lent   bool // the space is the caller's
	addr   netip.Addr
	cable  [2]netip.Prefix // near, far
	far    netspace.End    // of the link, at the host

	// guarded by Lab.mu
	box     *box         // nil for a public or direct host
	near    netspace.End // of the link, at the box or on the internet
	link    Link
	hole    int  // bytes of the MTU black hole; 0 none
	silent  bool // without UDP
	thread  *netspace.Thread
	started []*os.Process
}

// Name is the host's name in the Lab.
func (h *Host) Name() string { return h.name }

// Addr is the host's own address: private behind a NAT.
func (h *Host) Addr() netip.Addr { return h.addr }

// Public is the address that others see: the NAT's, or the host's own.
func (h *Host) Public() netip.Addr {
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	return h.seen()
}

func (h *Host) seen() netip.Addr {
	if h.box != nil {
		return h.box.public
	}
	return h.addr
}

// direct hosts have a cable to the internet and a private address: they reach
// Config.Router and nothing else.
func (h *Host) direct() bool { return h.lent && h.box == nil }

// Inside runs do on a thread that is in the host. Sockets made by do stay there.
// do must not start goroutines that are meant to be there too: dial literal
// addresses, with "tcp4" or "udp4".
func (h *Host) Inside(do func() error) error { return h.space.Inside(do) }

// Start starts cmd in the host, as cmd.Start; the caller waits for it. It is
// killed by Remove and Close, and when this program ends. Processes that it starts
// itself are its own business.
func (h *Host) Start(cmd *exec.Cmd) error {
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	if h.lab.closed || h.lab.hosts[h.name] != h {
		return fmt.Errorf("start in host %s: the host is gone", h.name)
	}
	if err := startIn(h.space, &h.thread, &h.started, cmd); err != nil {
		return fmt.Errorf("start in host %s: %w", h.name, err)
	}
	return nil
}

func startIn(space *netspace.Space, thread **netspace.Thread, started *[]*os.Process, cmd *exec.Cmd) error {
	if *thread == nil {
		t, err := space.Thread()
		if err != nil {
			return err
		}
		*thread = t
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// Sent when the thread ends, which it does with the Lab and with the program.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := (*thread).Do(cmd.Start); err != nil {
		return err
	}
	*started = append(*started, cmd.Process)
	return nil
}

func endAll(started []*os.Process, thread *netspace.Thread) {
	for _, p := range started {
		_ = p.Kill() // most have ended and been waited for
	}
	if thread != nil {
		thread.Close()
	}
}

// close ends the host's processes and lets go of its namespace.
func (h *Host) close() error {
	endAll(h.started, h.thread)
	h.started, h.thread = nil, nil
	if h.lent {
		return nil
	}
	return h.space.Close()
}

// Public adds a host with a public address.
func (l *Lab) Public(name string) (*Host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.newHost(name, nil)
	if err != nil {
		return nil, err
	}
	h.place(cable(l.cfg.PublicNet.Addr(), h.number))
	return l.add(h, nil)
}

// Behind adds a host behind a NAT box: one of its own, or that of the host named by
// nat.Box. link describes the connection of the host to its box.
func (l *Lab) Behind(name string, nat NAT, link Link) (*Host, error) {
	if err := errors.Join(nat.validate(), link.Validate()); err != nil {
		return nil, fmt.Errorf("add host %s: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.newHost(name, nil)
	if err != nil {
		return nil, err
	}
	h.link = link
	h.place(cable(privateBase, h.number))
	return l.add(h, &nat)
}

// Guest is a foreign namespace that becomes a host, for the local cloud.
type Guest struct {
	Name string
	// Space stays the caller's.
	Space *netspace.Space
	// Near and Far are the ends of the host's cable; Far's address is the host's.
	Near, Far netip.Prefix
	// NAT is the box before the host. Nil cables the host to the internet directly, where
	// it reaches only Config.Router.
	NAT  *NAT
	Link Link
}

// Adopt makes a guest a host, until Remove.
func (l *Lab) Adopt(g Guest) (*Host, error) {
	err := g.Link.Validate()
	if g.NAT != nil {
		err = errors.Join(err, g.NAT.validate())
	}
	if !l.cfg.Router.IsValid() {
		err = errors.Join(err, errors.New("the lab has no router address"))
	}
	if err != nil {
		return nil, fmt.Errorf("add host %s: %w", g.Name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.newHost(g.Name, g.Space)
	if err != nil {
		return nil, err
	}
	h.link = g.Link
	h.place(g.Near, g.Far)
	return l.add(h, g.NAT)
}

// Remove ends a host, its processes, and its box with the last host of it.
func (l *Lab) Remove(host string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.find(host)
	if err != nil {
		return err
	}
	return l.drop(h)
}

// SetNAT changes the behaviour of a host's box, which forgets its mappings. For a guest,
// nil takes the box away, and a NAT gives it one. It concerns all hosts of the box. It
// ignores nat.BlockUDP, which has a method of its own.
func (l *Lab) SetNAT(host string, nat *NAT) error {
	if nat != nil {
		if err := nat.validate(); err != nil {
			return err
		}
		if nat.Box != "" {
			return errors.New("nat: a host cannot move to another box")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.find(host)
	switch {
	case err != nil:
		return err
	case h.box != nil && nat != nil:
		h.box.nat = *nat
		return l.reload(h.box, 0)
	case h.box == nil && nat == nil:
		return nil
	case !h.lent:
		return fmt.Errorf("set nat of %s: only a guest gets or loses a box", host)
	}
	if err := l.unplug(h); err != nil {
		return fmt.Errorf("set nat of %s: %w", host, err)
	}
	if err := l.plug(h, nat); err != nil {
		return fmt.Errorf("set nat of %s: %w", host, err)
	}
	return l.applyFaults()
}

// newHost makes a host, in a namespace of its own or in the lent one.
func (l *Lab) newHost(name string, lent *netspace.Space) (*Host, error) {
	if l.closed {
		return nil, errors.New("the lab is closed")
	}
	if name == "" || l.hosts[name] != nil {
		return nil, fmt.Errorf("add host %q: the name must be new and not empty", name)
	}
	number, err := l.take()
	if err != nil {
		return nil, err
	}
	h := &Host{name: name, lab: l, number: number, space: lent, lent: lent != nil}
	if lent != nil {
		return h, nil
	}
	if h.space, err = netspace.New(nil); err != nil {
		l.numbers[number] = false
		return nil, fmt.Errorf("add host %s: %w", name, err)
	}
	return h, nil
}

func (h *Host) place(near, far netip.Prefix) {
	h.addr, h.cable = far.Addr(), [2]netip.Prefix{near, far}
	h.far = netspace.End{Space: h.space, Name: "eth0", Addr: far}
}

// add connects and registers a host, or undoes newHost.
func (l *Lab) add(h *Host, nat *NAT) (*Host, error) {
	err := l.plug(h, nat)
	if err == nil {
		l.hosts[h.name] = h
		if h.silent = nat != nil && nat.BlockUDP; h.silent {
			err = l.applyFaults()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("add host %s: %w", h.name, err), l.drop(h))
	}
	return h, nil
}

// drop undoes newHost and add, as far as they came.
func (l *Lab) drop(h *Host) error {
	errs := []error{l.unplug(h), h.close()}
	delete(l.hosts, h.name)
	l.numbers[h.number] = false
	for c := range l.cuts {
		if c.from == h.name || c.to == h.name {
			delete(l.cuts, c)
		}
	}
	return errors.Join(errs...)
}
