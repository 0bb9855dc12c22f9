package netspace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// End is one end of a cable: an interface to be made in a namespace.
type End struct {
	Space *Space
	Name  string
	// Addr is the address with the length of the net on the cable.
	Addr netip.Prefix
}

// lastIndex is the last assigned interface index, far above the kernel's own indexes in a
// namespace.
var lastIndex atomic.Int32

func init() { lastIndex.Store(1 << 16) }

// Connect makes a veth pair with a to b and sets both ends up. mtu 0 is 1,500.
func Connect(a, b End, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = a.Name, orDefault(mtu)
	// Unlike its peer's index in the other namespace: the kernel takes a pair with
	// one index for no pair, and notices the cable up to a second later.
	attrs.Index = int(lastIndex.Add(1))
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: b.Name, PeerNamespace: netlink.NsFd(b.Space.ns), PeerMTU: uint32(orDefault(mtu)),
	}
	if err := a.Space.nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("add cable %s to %s: %w", a.Name, b.Name, err)
	}
	for _, e := range []End{a, b} {
		if err := e.Space.Address(e.Name, e.Addr); err != nil {
			return err
		}
	}
	return Settle(a, b)
}

// Settle waits until the kernel has noticed that both ends of a veth pair are up. Until
// then the kernel drops packets, and a lost first ARP costs a second.
func Settle(ends ...End) error {
	deadline := time.Now().Add(5 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, e := range ends {
		for {
			link, err := e.Space.link(e.Name)
			if err != nil {
				return err
			}
			if link.Attrs().OperState == netlink.OperUp {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("interface %s stays %s", e.Name, link.Attrs().OperState)
			}
			<-tick.C
		}
	}
	return nil
}

func orDefault(mtu int) int {
	if mtu == 0 {
		return 1500
	}
	return mtu
}

// Tun makes a TUN interface at e, up, and returns its file descriptor, which does
// not block. Each read and write is a virtio-net header of 10 bytes and one
// packet, which may be a large TCP or UDP one still to be cut in segments.
// Closing the descriptor removes the interface.
func Tun(e End, mtu int) (fd int, err error) {
	err = e.Space.Inside(func() error {
		fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open /dev/net/tun: %w", err)
		}
		req, err := unix.NewIfreq(e.Name)
		if err != nil {
			return err
		}
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
			return errors.Join(fmt.Errorf("make interface %s: %w", e.Name, err), unix.Close(fd))
		}
		offload := unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_USO4 | unix.TUN_F_USO6
		if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offload) == nil {
			return nil
		}
		// Kernels before 6.2 know no UDP segmentation here; the kernel then does it before.
		if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4); err != nil {
			return errors.Join(fmt.Errorf("set offloads of %s: %w", e.Name, err), unix.Close(fd))
		}
		return nil
	})
	if err != nil {
		return -1, err
	}
	if err := e.Space.configureTun(e, mtu); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func (s *Space) configureTun(e End, mtu int) error {
	link, err := s.link(e.Name)
	if err != nil {
		return err
	}
	// The queue belongs to the emulated link, not here: this one only
	// bridges the time until the emulator reads.
	if err := s.nl.LinkSetTxQLen(link, 2000); err != nil {
		return fmt.Errorf("queue length of %s: %w", e.Name, err)
	}
	if err := s.nl.LinkSetMTU(link, orDefault(mtu)); err != nil {
		return fmt.Errorf("mtu of %s: %w", e.Name, err)
	}
	return s.Address(e.Name, e.Addr)
}

// Address gives the interface an address (none when invalid) and sets it up.
func (s *Space) Address(name string, addr netip.Prefix) error {
	link, err := s.link(name)
	if err != nil {
		return err
	}
	if addr.IsValid() {
		if err := s.nl.AddrAdd(link, &netlink.Addr{IPNet: ipNet(addr)}); err != nil {
			return fmt.Errorf("address %s on %s: %w", addr, name, err)
		}
	}
	if err := s.nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// Up sets an interface up.
func (s *Space) Up(name string) error { return s.Address(name, netip.Prefix{}) }

// Down sets an interface down.
func (s *Space) Down(name string) error {
	link, err := s.link(name)
	if err != nil {
		return err
	}
	return s.nl.LinkSetDown(link)
}

// Remove removes an interface; a missing interface is no error.
func (s *Space) Remove(name string) error {
	link, err := s.nl.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if err := s.nl.LinkDel(link); err != nil {
		return fmt.Errorf("remove interface %s: %w", name, err)
	}
	return nil
}

// Route sends packets to to by way of via, and replaces an earlier route to to. from, when
// valid, is the source address of this namespace's own packets.
func (s *Space) Route(to netip.Prefix, via, from netip.Addr) error {
	r := &netlink.Route{Dst: ipNet(to), Gw: via.AsSlice()}
	if from.IsValid() {
		r.Src = from.AsSlice()
	}
	if err := s.nl.RouteReplace(r); err != nil {
		return fmt.Errorf("route to %s: %w", to, err)
	}
	return nil
}

// Discard silently drops packets to to, unless a longer route matches.
func (s *Space) Discard(to netip.Prefix) error {
	if err := s.nl.RouteReplace(&netlink.Route{Dst: ipNet(to), Type: unix.RTN_BLACKHOLE}); err != nil {
		return fmt.Errorf("discard packets to %s: %w", to, err)
	}
	return nil
}

// Whole lets large packets through an interface whole (true) or has them cut in
// segments before (false), for rules that look at packet sizes.
func (s *Space) Whole(name string, on bool) error {
	link, err := s.link(name)
	if err != nil {
		return err
	}
	segments := 1
	if on {
		segments = 65535
	}
	if err := s.nl.LinkSetGSOMaxSegs(link, segments); err != nil {
		return fmt.Errorf("segments of %s: %w", name, err)
	}
	return nil
}

func (s *Space) link(name string) (netlink.Link, error) {
	link, err := s.nl.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", name, err)
	}
	return link, nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}
