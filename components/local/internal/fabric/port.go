package fabric

import (
	"errors"
	"fmt"
	"net/netip"

	"cadre.dev/lab/natlab"
	"cadre.dev/lab/netspace"
)

// Port is one CVM's attachment: its namespace and the cable to the fabric.
type Port struct {
	// Addr is the CVM's address on the cable.
	Addr netip.Addr

	f     *Fabric
	name  string
	space *netspace.Space
	host  *natlab.Host
}

// Attach makes the namespace of the named CVM, of that index (1..MaxIndex), with
// loopback up and a cable to the fabric, as its network says.
func (f *Fabric) Attach(name string, index int) (*Port, error) {
	if index < 1 || index > MaxIndex {
		return nil, fmt.Errorf("attach machine %d: the index must be 1 to %d", index, MaxIndex)
	}
	space, err := netspace.New(nil)
	if err != nil {
		return nil, fmt.Errorf("make namespace of machine %d: %w", index, err)
	}
	near, far := cable(index)
	p := &Port{Addr: far.Addr(), f: f, name: name, space: space}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := p.attach(near, far); err != nil {
		return nil, errors.Join(fmt.Errorf("attach machine %d: %w", index, err), p.detach())
	}
	return p, nil
}

// attach is called under the Fabric's lock, as detach is.
func (p *Port) attach(near, far netip.Prefix) (err error) {
	n := p.f.network(p.name)
	p.host, err = p.f.lab.Adopt(natlab.Guest{Name: p.name, Space: p.space, Near: near, Far: far, NAT: n.nat(), Link: n.Link})
	if err != nil {
		return err
	}
	p.f.ports[p.name] = p
	// Adopt does not know the other fields.
	done := n
	done.BlockUDP, done.MTUBlackhole = false, 0
	if err := p.f.change(p.name, done, n); err != nil {
		return err
	}
	for c := range p.f.cuts {
		if c.From == p.name || c.To == p.name {
			if err := p.f.apply(c, true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Port) detach() error {
	var err error
	if p.host != nil {
		err = p.f.lab.Remove(p.name)
		delete(p.f.ports, p.name)
		p.host = nil
	}
	return errors.Join(err, p.space.Close())
}

// Inside runs do on a thread that is in the CVM's namespace.
func (p *Port) Inside(do func() error) error { return p.space.Inside(do) }

// Fd is the namespace, for reading its identity. It belongs to the Port.
func (p *Port) Fd() int { return p.space.Fd() }

// SetLink pulls (false) or plugs (true) the cable.
func (p *Port) SetLink(up bool) error { return p.f.lab.Unplug(p.name, !up) }

// Close removes the cable and lets go of the namespace. Nothing that is still
// running inside can reach the fabric afterwards.
func (p *Port) Close() error {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	return p.detach()
}

// cable gives the two ends of machine index's /30.
func cable(index int) (near, far netip.Prefix) {
	base := index * 4
	at := func(n int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte((base + n) >> 8), byte(base + n)}), 30)
	}
	return at(1), at(2)
}
