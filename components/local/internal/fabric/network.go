package fabric

import (
	"fmt"
	"net/netip"

	"cadre.dev/lab/natlab"
)

// NAT is the kind of box that a CVM is behind.
type NAT string

const (
	// NoNAT is no box: the CVM reaches the fabric address and nothing else. The zero
	// value means this too.
	NoNAT NAT = "none"
	// FullCone: one public port for all destinations, open to every sender.
	FullCone NAT = "full-cone"
	// AddressRestricted: the same, open to addresses that the CVM has sent to.
	AddressRestricted NAT = "address-restricted"
	// PortRestricted: the same, open to addresses and ports that it has sent to.
	PortRestricted NAT = "port-restricted"
	// Symmetric: another public port for each destination, open to that only.
	Symmetric NAT = "symmetric"
)

func (n NAT) natted() bool { return n != "" && n != NoNAT }

// Network describes a CVM's connection. The zero value is a direct, perfect cable.
type Network struct {
	NAT NAT
	// BlockUDP drops the CVM's UDP, also to and from the fabric.
	BlockUDP bool
	// RejectSYN answers unsolicited TCP connections from other CVMs with a reset
	// instead of silence.
	RejectSYN bool
	Link      natlab.Link
	// MTUBlackhole, when not 0, makes larger packets disappear without a word.
	MTUBlackhole int
}

// Validate reports the problems of the network.
func (n Network) Validate() error {
	switch n.NAT {
	case "", NoNAT, FullCone, AddressRestricted, PortRestricted, Symmetric:
	default:
		return fmt.Errorf("nat: %q is not one of %s, %s, %s, %s, %s", n.NAT, NoNAT, FullCone, AddressRestricted, PortRestricted, Symmetric)
	}
	if n.MTUBlackhole != 0 && n.MTUBlackhole < 100 {
		return fmt.Errorf("mtu black hole: %d must be at least 100, or 0", n.MTUBlackhole)
	}
	if n.Link.MTU != 0 {
		return fmt.Errorf("link mtu: %d cannot be set here", n.Link.MTU)
	}
	return n.Link.Validate()
}

func (n Network) nat() *natlab.NAT {
	if !n.NAT.natted() {
		return nil
	}
	out := map[NAT]natlab.NAT{
		FullCone: natlab.FullCone, AddressRestricted: natlab.AddressRestricted,
		PortRestricted: natlab.PortRestricted, Symmetric: natlab.Symmetric,
	}[n.NAT]
	out.RejectSYN = n.RejectSYN
	return &out
}

// Network is that of the named CVM, attached or not.
func (f *Fabric) Network(name string) Network {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.network(name)
}

func (f *Fabric) network(name string) Network {
	if n, ok := f.networks[name]; ok {
		return n
	}
	return f.standard
}

// SetNetwork changes that of the named CVM, now and for later boots. A change of
// the NAT may end its connections.
func (f *Fabric) SetNetwork(name string, n Network) error {
	if err := n.Validate(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.network(name)
	if f.ports[name] != nil {
		if err := f.change(name, was, n); err != nil {
			return err
		}
	}
	f.networks[name] = n
	return nil
}

func (f *Fabric) change(name string, was, is Network) error {
	if was.NAT.natted() != is.NAT.natted() || was.NAT.natted() && (was.NAT != is.NAT || was.RejectSYN != is.RejectSYN) {
		if err := f.lab.SetNAT(name, is.nat()); err != nil {
			return err
		}
	}
	if was.Link != is.Link {
		if err := f.lab.SetLink(name, is.Link); err != nil {
			return err
		}
	}
	if was.BlockUDP != is.BlockUDP {
		if err := f.lab.BlockUDP(name, is.BlockUDP); err != nil {
			return err
		}
	}
	if was.MTUBlackhole != is.MTUBlackhole {
		return f.lab.SetMTUBlackhole(name, is.MTUBlackhole)
	}
	return nil
}

// Rebind makes the named CVM's NAT forget its mappings and use other public ports.
func (f *Fabric) Rebind(name string) error { return f.lab.Rebind(name) }

// Public is the address that other CVMs see the named one at: its NAT's. Invalid
// without a NAT, and while it is not attached.
func (f *Fabric) Public(name string) netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.ports[name]
	if p == nil || !f.network(name).NAT.natted() {
		return netip.Addr{}
	}
	return p.host.Public()
}

// Forget drops the settings of a deleted CVM.
func (f *Fabric) Forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.networks, name)
	for c := range f.cuts {
		if c.From == name || c.To == name {
			delete(f.cuts, c)
		}
	}
}
