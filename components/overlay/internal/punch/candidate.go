package punch

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"cadre.dev/overlay/internal/ice"
)

// MaxCandidates is how many candidates either side may offer (OVL-09).
const MaxCandidates = 8

// Kind is the kind of host at a candidate's address.
type Kind string

const (
	// Host is an address of one of the host's own interfaces, of use only
	// within the same network.
	Host Kind = "host"
	// Mapped is an address that a reflector saw: the host's own or its translator's.
	Mapped Kind = "mapped"
	// Listen is the host's ordinary session listener.
	Listen Kind = "listen"
)

// Candidate is an address at which a host may be reached.
type Candidate struct {
	Kind Kind           `json:"kind"`
	Addr netip.AddrPort `json:"addr"`
}

// allowedCandidate is the address filter: nil for an address that a Peer may
// name, else an error that wraps ErrCandidateForbidden. private lets addresses
// of private networks pass.
var allowedCandidate func(addr netip.Addr, private bool) error = ice.AllowedCandidate

// network is a host's knowledge of its place.
type network struct {
	// mapped are the addresses that reflectors saw.
	mapped []netip.Addr
	// attached are the ranges of the host's own interfaces.
	attached []netip.Prefix
	// ip4 and ip6: the family has a local port.
	ip4, ip6 bool
}

// near reports whether a is in the network of the host itself: on one of its links, or
// behind the same translator (same).
func (n network) near(a netip.Addr, same bool) bool {
	return same || slices.ContainsFunc(n.attached, func(p netip.Prefix) bool { return p.Contains(a) })
}

// behindSame reports whether remote names a mapped address that is also ours.
func (n network) behindSame(remote []Candidate) bool {
	return slices.ContainsFunc(remote, func(c Candidate) bool {
		return c.Kind == Mapped && slices.Contains(n.mapped, c.Addr.Addr().Unmap())
	})
}

// usable returns the allowed and useful candidates of a Peer's offer, normalised and
// without repetition. Private addresses are useful only within one network, which keeps a
// Peer from aiming us at other hosts with these addresses (OVL-10).
func (n network) usable(remote []Candidate, allow func(netip.Addr, bool) error, log *slog.Logger) ([]Candidate, error) {
	if len(remote) > MaxCandidates {
		return nil, fmt.Errorf("%w: %d candidates, at most %d are taken", ErrCandidateForbidden, len(remote), MaxCandidates)
	}
	same := n.behindSame(remote)
	// In a closed network the reflectors, and so all mapped addresses, may be
	// private.
	closed := slices.ContainsFunc(n.mapped, func(a netip.Addr) bool { return allow(a, false) != nil })
	var out []Candidate
	for _, c := range remote {
		c.Addr = netip.AddrPortFrom(c.Addr.Addr().Unmap(), c.Addr.Port())
		a := c.Addr.Addr()
		near := n.near(a, same)
		err := allow(a, near || (closed && c.Kind != Host))
		switch {
		case c.Kind != Host && c.Kind != Mapped && c.Kind != Listen:
			err = fmt.Errorf("%w: kind %q", ErrCandidateForbidden, c.Kind)
		case c.Addr.Port() == 0:
			err = fmt.Errorf("%w: port 0", ErrCandidateForbidden)
		}
		if err != nil {
			log.Debug("candidate refused", "addr", c.Addr, "error", err)
			continue
		}
		if c.Kind == Host && !near || a.Is4() && !n.ip4 || a.Is6() && !n.ip6 {
			continue
		}
		if !slices.ContainsFunc(out, func(o Candidate) bool { return o.Addr == c.Addr }) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w among %d offered", ErrNoCandidates, len(remote))
	}
	return out, nil
}
