package fabric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Address is what every CVM reaches: the gateway and the API listen on it.
var Address = netip.MustParseAddr("10.213.0.1")

// MaxIndex bounds machine indexes: 10.213.0.0/16 in /30 nets, the first one kept.
const MaxIndex = 1<<14 - 1

// Fabric is the namespace that all CVMs hang on. Safe for concurrent use.
type Fabric struct {
	ns netns.NsHandle
	nl *netlink.Handle
}

// Open makes the namespace. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
func Open() (*Fabric, error) {
	ns, err := newNamespace(func() error {
		// A new namespace inherits the host's forwarding; the cloud must not route
		// between CVMs whatever the host does.
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0\n"), 0o600); err != nil {
			return fmt.Errorf("switch forwarding off: %w", err)
		}
		got, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
		if err != nil {
			return fmt.Errorf("read forwarding: %w", err)
		}
		if strings.TrimSpace(string(got)) != "0" {
			return fmt.Errorf("forwarding is still on: %q", got)
		}
		return disableIPv6()
	})
	if err != nil {
		return nil, fmt.Errorf("make fabric namespace: %w", err)
	}
	nl, err := netlink.NewHandleAt(ns)
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("open netlink in fabric: %w", err)
	}
	f := &Fabric{ns: ns, nl: nl}
	if err := f.setUp("lo", netip.PrefixFrom(Address, 32)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close lets go of the namespace. Listeners opened in it keep it alive until
// they are closed too.
func (f *Fabric) Close() error {
	f.nl.Close()
	return f.ns.Close()
}

// Listen opens a TCP listener on Address:port.
func (f *Fabric) Listen(ctx context.Context, port int) (net.Listener, error) {
	var l net.Listener
	err := f.inside(func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort(Address.String(), strconv.Itoa(port)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen in fabric on port %d: %w", port, err)
	}
	return l, nil
}

// Dial connects from the fabric to a CVM.
func (f *Fabric) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var c net.Conn
	err := f.inside(func() (err error) {
		// A literal address: no resolver and no second goroutine, so the socket is
		// made on this thread.
		c, err = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, "tcp4", to.String())
		return err
	})
	return c, err
}

func (f *Fabric) setUp(name string, addr netip.Prefix) error {
	return setUp(f.nl, name, addr)
}

func (f *Fabric) inside(do func() error) error { return Inside(f.ns, do) }

// Inside runs do on a thread that is in ns. do must not start goroutines that
// are meant to be there too.
func Inside(ns netns.NsHandle, do func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("get current namespace: %w", err)
	}
	defer home.Close()
	if err := netns.Set(ns); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter namespace: %w", err)
	}
	err = do()
	if back := netns.Set(home); back != nil {
		// The thread stays locked, so the runtime ends it with its goroutine
		// instead of giving it to someone else in the wrong namespace.
		return errors.Join(err, fmt.Errorf("leave namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

// newNamespace makes a namespace and runs prepare inside it. The thread goes
// back home afterwards: a thread left behind would keep the namespace alive, and
// if it were the process's first one, /proc/<pid> would show the wrong network.
func newNamespace(prepare func() error) (netns.NsHandle, error) {
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

// disableIPv6 keeps link-local addresses off interfaces made later. Loopback
// keeps ::1, which programs expect.
func disableIPv6() error {
	err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1\n"), 0o600)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("switch IPv6 off: %w", err)
	}
	return nil
}

func setUp(nl *netlink.Handle, name string, addr netip.Prefix) error {
	link, err := nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if addr.IsValid() {
		a := &netlink.Addr{IPNet: &net.IPNet{IP: addr.Addr().AsSlice(), Mask: net.CIDRMask(addr.Bits(), 32)}}
		if err := nl.AddrAdd(link, a); err != nil {
			return fmt.Errorf("address %s on %s: %w", addr, name, err)
		}
	}
	if err := nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}
