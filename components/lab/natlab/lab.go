package natlab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"sync"

	"cadre.dev/lab/internal/slowlink"
	"cadre.dev/lab/netspace"
	"golang.org/x/sys/unix"
)

// Config is a Lab.
type Config struct {
	// Router, when valid, is an address of the internet's own: every host reaches it,
	// and it reaches every host by its private address, past all NATs.
	Router netip.Addr
	// PublicNet is the range of public addresses, four for each cable. The zero value is
	// 198.18.0.0/15, reserved for benchmarks; set another range for programs that treat
	// such ranges specially. Packets of this range stay inside the Lab.
	PublicNet netip.Prefix
	// Watch counts the packets between hosts, for Flows and SetTransit.
	Watch bool
	// Seed makes losses, jitter and reordering repeatable.
	Seed uint64
}

var (
	everywhere = netip.MustParsePrefix("0.0.0.0/0")
	// Public and private addresses are cut in nets of four, one per cable.
	defaultPublic = netip.MustParsePrefix("198.18.0.0/15")
	privateBase   = netip.MustParseAddr("10.64.0.0")
)

const maxCables = 1 << 15

// Lab is an internet with hosts. Safe for concurrent use.
type Lab struct {
	cfg Config

	mu       sync.Mutex // guards the following, and all hosts and boxes
	internet *router
	slow     *slowlink.Process // nil until a link needs it
	hosts    map[string]*Host
	boxes    []*box
	cuts     map[cut]struct{}
	numbers  []bool           // of cables in use
	thread   *netspace.Thread // of the internet; nil until Start
	started  []*os.Process    // on the internet
	open     bool             // the internet forwards
	shut     bool             // it drops packets between hosts
	closed   bool
}

// router is a namespace that forwards between hosts: the internet or a box.
type router struct {
	space  *netspace.Space
	faults string // the rules loaded; guarded by Lab.mu
}

// Available reports the parts that this machine lacks for a Lab; nil if it lacks none.
func Available() error {
	if os.Getuid() != 0 {
		return errors.New("making network namespaces needs root")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		return errors.New("nft is not on PATH: install nftables")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("emulated links need TUN interfaces: %w", err)
	}
	s, err := netspace.New(nil)
	if err != nil {
		return err
	}
	return s.Close()
}

// New makes an empty Lab. ctx bounds only the making.
func New(ctx context.Context, cfg Config) (*Lab, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !cfg.PublicNet.IsValid() {
		cfg.PublicNet = defaultPublic
	}
	if !cfg.PublicNet.Addr().Is4() || cfg.PublicNet.Bits() > 24 {
		return nil, fmt.Errorf("public net %s must be of IPv4 and at least a /24", cfg.PublicNet)
	}
	cfg.PublicNet = cfg.PublicNet.Masked()
	space, err := netspace.New(nil)
	if err != nil {
		return nil, err
	}
	l := &Lab{cfg: cfg, internet: &router{space: space}, hosts: map[string]*Host{}, cuts: map[cut]struct{}{}}
	if cfg.Router.IsValid() {
		if err := space.Address("lo", netip.PrefixFrom(cfg.Router, 32)); err != nil {
			return nil, errors.Join(fmt.Errorf("make the internet: %w", err), space.Close())
		}
	}
	return l, nil
}

// forward makes the internet one, with the first public address.
func (l *Lab) forward() error {
	if l.open {
		return nil
	}
	// Unused addresses swallow their packets; the real internet does not answer for
	// private ones either.
	if err := l.internet.space.Discard(everywhere); err != nil {
		return err
	}
	if l.cfg.Router.IsValid() || l.cfg.Watch {
		if err := l.internet.space.Rules(l.transitRules()); err != nil {
			return err
		}
	}
	// Last, so that nothing is forwarded before the rules are there.
	if err := l.internet.space.Set(map[string]string{"net/ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	l.open = true
	return nil
}

// Close ends every process started in hosts and removes everything.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var errs []error
	for _, h := range l.hosts {
		errs = append(errs, h.close())
	}
	if l.slow != nil {
		errs = append(errs, l.slow.Close())
	}
	for _, b := range l.boxes {
		errs = append(errs, b.router.space.Close())
	}
	endAll(l.started, l.thread)
	return errors.Join(append(errs, l.internet.space.Close())...)
}

// Inside runs do on a thread that is on the internet itself, where Config.Router
// is. do must not start goroutines that are meant to be there too.
func (l *Lab) Inside(do func() error) error { return l.internet.space.Inside(do) }

// Start starts cmd on the internet itself, as Host.Start does in a host.
func (l *Lab) Start(cmd *exec.Cmd) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errors.New("start on the internet: the lab is closed")
	}
	return startIn(l.internet.space, &l.thread, &l.started, cmd)
}

// take gives out the number of a cable.
func (l *Lab) take() (int, error) {
	for i, used := range l.numbers {
		if !used {
			l.numbers[i] = true
			return i, nil
		}
	}
	if most := min(maxCables, 1<<(30-l.cfg.PublicNet.Bits())); len(l.numbers) == most {
		return 0, fmt.Errorf("all %d cables are in use", most)
	}
	l.numbers = append(l.numbers, true)
	return len(l.numbers) - 1, nil
}

func (l *Lab) find(host string) (*Host, error) {
	h := l.hosts[host]
	if h == nil {
		return nil, fmt.Errorf("there is no host %q", host)
	}
	return h, nil
}

// cable gives the ends of a cable's net of four.
func cable(base netip.Addr, number int) (near, far netip.Prefix) {
	b := base.As4()
	at := func(n int) netip.Prefix {
		v := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
		v += number*4 + n
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), 30)
	}
	return at(1), at(2)
}

func closeFD(fd int) { _ = unix.Close(fd) }
