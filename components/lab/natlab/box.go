package natlab

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"cadre.dev/lab/netspace"
)

// box is a NAT.
type box struct {
	router *router
	nat    NAT
	public netip.Addr
	number int
	hosts  int
}

// Names of interfaces, followed by the cable's number.
const (
	nets   = "n" // on the internet: a public host or a box
	direct = "d" // on the internet: a direct host
)

// plug gives a host its box and its cable.
func (l *Lab) plug(h *Host, nat *NAT) error {
	if !h.lent || nat != nil {
		if err := l.forward(); err != nil {
			return err
		}
	}
	number := strconv.Itoa(h.number)
	switch {
	case nat != nil:
		if err := l.enter(h, *nat); err != nil {
			return err
		}
		h.near = netspace.End{Space: h.box.router.space, Name: lan + number, Addr: h.cable[0]}
	case h.lent:
		h.near = netspace.End{Space: l.internet.space, Name: direct + number, Addr: h.cable[0]}
	default:
		h.near = netspace.End{Space: l.internet.space, Name: nets + number, Addr: h.cable[0]}
	}
	if err := l.connect(h); err != nil {
		return err
	}
	if h.box == nil || !l.cfg.Router.IsValid() {
		return nil
	}
	return l.internet.space.Route(netip.PrefixFrom(h.addr, 32), h.box.public, l.cfg.Router)
}

// unplug undoes plug, as far as it came.
func (l *Lab) unplug(h *Host) error {
	var errs []error
	if h.near.Space != nil {
		if h.emulated() && l.slow != nil {
			_ = l.slow.Remove(h.name) // it may not be there yet
		} else {
			errs = append(errs, h.near.Space.Remove(h.near.Name))
		}
		h.near = netspace.End{}
	}
	if b := h.box; b != nil {
		h.box = nil
		if b.hosts--; b.hosts == 0 {
			errs = append(errs, l.internet.space.Remove(nets+strconv.Itoa(b.number)), b.router.space.Close())
			l.numbers[b.number] = false
			l.boxes = slices.DeleteFunc(l.boxes, func(o *box) bool { return o == b })
		}
	}
	return errors.Join(errs...)
}

// enter puts a host in the box that nat says.
func (l *Lab) enter(h *Host, nat NAT) error {
	if nat.Box == "" {
		b, err := l.newBox(nat, h.link.MTU)
		if err != nil {
			return err
		}
		h.box = b
	} else {
		mate := l.hosts[nat.Box]
		if mate == nil || mate.box == nil {
			return fmt.Errorf("no host %q is behind a NAT", nat.Box)
		}
		h.box, h.link.MTU = mate.box, mate.link.MTU
	}
	h.box.hosts++
	return nil
}

// newBox makes a NAT box with a public address and no hosts.
func (l *Lab) newBox(nat NAT, mtu int) (*box, error) {
	number, err := l.take()
	if err != nil {
		return nil, err
	}
	space, err := netspace.New(map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv4/conf/all/send_redirects": "0", "net/ipv4/conf/default/send_redirects": "0",
	})
	if err != nil {
		l.numbers[number] = false
		return nil, err
	}
	near, far := cable(l.cfg.PublicNet.Addr(), number)
	name := nets + strconv.Itoa(number)
	b := &box{router: &router{space: space}, nat: nat, public: far.Addr(), number: number}
	err = netspace.Connect(netspace.End{Space: l.internet.space, Name: name, Addr: near},
		netspace.End{Space: space, Name: wan, Addr: far}, mtu)
	if err == nil {
		err = space.Route(everywhere, near.Addr(), netip.Addr{})
	}
	if err == nil {
		err = space.Rules(nat.rules(b.public, l.cfg.Router, 0))
	}
	if err == nil {
		err = space.Set(map[string]string{"net/netfilter/nf_conntrack_udp_timeout_stream": strconv.Itoa(memory)})
	}
	if err != nil {
		l.numbers[number] = false
		return nil, errors.Join(fmt.Errorf("make box: %w", err), l.internet.space.Remove(name), space.Close())
	}
	l.boxes = append(l.boxes, b)
	return b, nil
}

// reload loads a box's rules again and clears its mappings.
func (l *Lab) reload(b *box, seed uint32) error {
	if err := b.router.space.Rules(b.nat.rules(b.public, l.cfg.Router, seed)); err != nil {
		return err
	}
	return b.router.space.ForgetConnections()
}
