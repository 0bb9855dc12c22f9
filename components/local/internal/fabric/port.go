package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Port is one CVM's attachment: its namespace and the cable to the fabric.
type Port struct {
	// Addr is the CVM's address on the cable.
	Addr netip.Addr

	f    *Fabric
	ns   netns.NsHandle
	name string // of the fabric's end
}

// Attach makes the namespace of machine index (1..MaxIndex) with loopback up and
// a cable to the fabric.
func (f *Fabric) Attach(index int) (*Port, error) {
	if index < 1 || index > MaxIndex {
		return nil, fmt.Errorf("attach machine %d: the index must be 1 to %d", index, MaxIndex)
	}
	ns, err := newNamespace(disableIPv6)
	if err != nil {
		return nil, fmt.Errorf("make namespace of machine %d: %w", index, err)
	}
	near, far := cable(index)
	p := &Port{Addr: far.Addr(), f: f, ns: ns, name: "cvm" + strconv.Itoa(index)}
	if err := p.connect(near, far); err != nil {
		return nil, errors.Join(fmt.Errorf("attach machine %d: %w", index, err), p.Close())
	}
	return p, nil
}

func (p *Port) connect(near, far netip.Prefix) error {
	nl, err := netlink.NewHandleAt(p.ns)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer nl.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = p.name
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(p.ns)}
	if err := p.f.nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("add cable: %w", err)
	}
	if err := p.f.setUp(p.name, near); err != nil {
		return err
	}
	if err := setUp(nl, "lo", netip.Prefix{}); err != nil {
		return err
	}
	if err := setUp(nl, "eth0", far); err != nil {
		return err
	}
	route := &netlink.Route{
		Dst: &net.IPNet{IP: Address.AsSlice(), Mask: net.CIDRMask(32, 32)},
		Gw:  near.Addr().AsSlice(),
	}
	if err := nl.RouteAdd(route); err != nil {
		return fmt.Errorf("route to the fabric: %w", err)
	}
	return nil
}

// Inside runs do on a thread that is in the CVM's namespace.
func (p *Port) Inside(do func() error) error { return Inside(p.ns, do) }

// Fd is the namespace, for reading its identity. It belongs to the Port.
func (p *Port) Fd() int { return int(p.ns) }

// SetLink pulls (false) or plugs (true) the cable.
func (p *Port) SetLink(up bool) error {
	link, err := p.f.nl.LinkByName(p.name)
	if err != nil {
		return fmt.Errorf("find cable %s: %w", p.name, err)
	}
	if up {
		return p.f.nl.LinkSetUp(link)
	}
	return p.f.nl.LinkSetDown(link)
}

// Close removes the cable and lets go of the namespace. Nothing that is still
// running inside can reach the fabric afterwards.
func (p *Port) Close() error {
	var errs []error
	if link, err := p.f.nl.LinkByName(p.name); err == nil {
		errs = append(errs, p.f.nl.LinkDel(link))
	}
	return errors.Join(append(errs, p.ns.Close())...)
}

// cable gives the two ends of machine index's /30.
func cable(index int) (near, far netip.Prefix) {
	base := index * 4
	at := func(n int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte((base + n) >> 8), byte(base + n)}), 30)
	}
	return at(1), at(2)
}
