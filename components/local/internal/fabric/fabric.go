package fabric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"cadre.dev/lab/natlab"
)

// Address is reachable from every CVM: the gateway and the API listen on it.
var Address = netip.MustParseAddr("10.213.0.1")

// MaxIndex bounds machine indexes: 10.213.0.0/16 in /30 nets, the first one kept.
const MaxIndex = 1<<14 - 1

// Fabric is the namespace that all CVMs hang on. Safe for concurrent use.
type Fabric struct {
	lab *natlab.Lab

	mu       sync.Mutex // guards the following
	standard Network
	networks map[string]Network // by CVM: other than standard
	cuts     map[Cut]struct{}
	ports    map[string]*Port // attached now
	passing  bool
}

// Open makes the namespace. standard is the network of every CVM that has no
// other one. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN; for NATs the nft program, for
// emulated links /dev/net/tun.
func Open(ctx context.Context, standard Network) (*Fabric, error) {
	if err := standard.Validate(); err != nil {
		return nil, err
	}
	if standard.NAT.natted() {
		if err := natlab.Available(); err != nil {
			return nil, fmt.Errorf("put CVMs behind NATs: %w", err)
		}
	}
	lab, err := natlab.New(ctx, natlab.Config{Router: Address, Watch: true})
	if err != nil {
		return nil, fmt.Errorf("make fabric: %w", err)
	}
	return &Fabric{
		lab: lab, standard: standard, networks: map[string]Network{}, cuts: map[Cut]struct{}{}, ports: map[string]*Port{}, passing: true,
	}, nil
}

// Close lets go of the namespace. Listeners opened in it keep it alive until
// they are closed too.
func (f *Fabric) Close() error { return f.lab.Close() }

// Listen opens a TCP listener on Address:port.
func (f *Fabric) Listen(ctx context.Context, port int) (net.Listener, error) {
	var l net.Listener
	err := f.lab.Inside(func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort(Address.String(), strconv.Itoa(port)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen in fabric on port %d: %w", port, err)
	}
	return l, nil
}

// Dial connects from the fabric to a CVM, past its NAT.
func (f *Fabric) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var c net.Conn
	err := f.lab.Inside(func() (err error) {
		// A literal address: no resolver and no second goroutine, so the socket is
		// made on this thread.
		c, err = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, "tcp4", to.String())
		return err
	})
	return c, err
}

// Start starts a process in the fabric. The caller waits for it; it does not
// outlive the Fabric or the program.
func (f *Fabric) Start(cmd *exec.Cmd) error { return f.lab.Start(cmd) }

// Transit lets CVMs' packets to each other pass (true) or drops them all. Only
// CVMs behind NATs can send each other any.
func (f *Fabric) Transit(pass bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.lab.SetTransit(pass); err != nil {
		return err
	}
	f.passing = pass
	return nil
}

// Flows counts the packets of CVMs to each other since the beginning, and says
// whether they pass. Hosts in it are the names given to Attach.
func (f *Fabric) Flows() (passing bool, flows []natlab.Flow, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	flows, err = f.lab.Flows()
	return f.passing, flows, err
}

// Cut drops the packets of one CVM to another.
type Cut struct{ From, To string }

// SetCuts replaces all cuts from and to the named CVM: traffic with the CVMs in both is dropped in
// both directions, and its packets to the CVMs in out are dropped. The cuts last until replaced,
// over boots of either CVM.
func (f *Fabric) SetCuts(name string, both, out []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := map[Cut]struct{}{}
	for _, other := range both {
		wanted[Cut{name, other}], wanted[Cut{other, name}] = struct{}{}, struct{}{}
	}
	for _, other := range out {
		wanted[Cut{name, other}] = struct{}{}
	}
	var errs []error
	for c := range f.cuts {
		if _, keep := wanted[c]; !keep && (c.From == name || c.To == name) {
			delete(f.cuts, c)
			errs = append(errs, f.apply(c, false))
		}
	}
	for c := range wanted {
		f.cuts[c] = struct{}{}
		errs = append(errs, f.apply(c, true))
	}
	return errors.Join(errs...)
}

// Cuts lists all, in no order.
func (f *Fabric) Cuts() []Cut {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Cut, 0, len(f.cuts))
	for c := range f.cuts {
		out = append(out, c)
	}
	return out
}

// apply makes or heals a cut, once both ends are attached; called under the lock.
func (f *Fabric) apply(c Cut, on bool) error {
	if f.ports[c.From] == nil || f.ports[c.To] == nil {
		return nil
	}
	return f.lab.OneWay(c.From, c.To, on)
}
