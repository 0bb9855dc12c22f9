package peermap

import (
	"fmt"
	"net/netip"
	"slices"

	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/identity"
)

// Protocol is the transport protocol of a forwarded port.
type Protocol string

const (
	// TCP ports are forwarded as streams.
	TCP Protocol = "tcp"
	// UDP ports are forwarded as datagrams, which may be lost.
	UDP Protocol = "udp"
)

// PortRef is one port of one protocol.
type PortRef struct {
	Protocol Protocol
	Port     uint16
	// Loopback, of a TCP port in Accepts: the workload listens on 127.0.0.1, and not
	// on the machine's VIP.
	Loopback bool
}

// Peer is one entry of the peer map.
type Peer struct {
	ID identity.ID
	// BootID is the admitted Boot. A worker without a BootID is not admitted: the node
	// neither dials it nor accepts it. For a coordinator "" means any Boot with a
	// certificate of the cluster CA.
	BootID string
	// InstanceID is where the gateway finds the Peer; "" means nowhere now.
	InstanceID string
	// VIP is the Peer's address on this machine's loopback.
	VIP netip.Addr
	// Offers are the Peer's ports that this node forwards to: it listens on
	// VIP:port for each, also while the Peer is away.
	Offers []PortRef
	// Accepts are this node's own ports that the Peer may reach. Nil means none.
	Accepts []PortRef
	// Coordinator: workers dial this Peer, and Sessions with it carry control
	// connections.
	Coordinator bool
}

// Equal reports whether two entries are equal.
func (p Peer) Equal(q Peer) bool {
	return p.ID == q.ID && p.BootID == q.BootID && p.InstanceID == q.InstanceID && p.VIP == q.VIP && p.Coordinator == q.Coordinator &&
		slices.Equal(p.Offers, q.Offers) && slices.Equal(p.Accepts, q.Accepts)
}

func (p Peer) check(self identity.ID) error {
	if err := p.ID.Validate(); err != nil {
		return err
	}
	if p.ID.Cluster != self.Cluster {
		return fmt.Errorf("cluster %s is not this node's %s", p.ID.Cluster, self.Cluster)
	}
	if !p.VIP.Is4() {
		return fmt.Errorf("VIP %q: want an IPv4 address", p.VIP)
	}
	return nil
}

// Rules are the parts of the entry that forwarding needs.
func (p Peer) Rules() forward.Rules {
	loopback := slices.DeleteFunc(slices.Clone(p.Accepts), func(r PortRef) bool { return !r.Loopback || r.Protocol != TCP })
	return forward.Rules{
		VIP: p.VIP, Offers: forwardPorts(p.Offers), Accepts: forwardPorts(p.Accepts), Loopback: forwardPorts(loopback),
	}
}

func forwardPorts(refs []PortRef) []forward.Port {
	ports := make([]forward.Port, 0, len(refs))
	for _, r := range refs {
		if r.Port == 0 {
			continue
		}
		switch r.Protocol {
		case TCP:
			ports = append(ports, forward.Port{Protocol: forward.TCP, Port: r.Port})
		case UDP:
			ports = append(ports, forward.Port{Protocol: forward.UDP, Port: r.Port})
		}
	}
	return ports
}
