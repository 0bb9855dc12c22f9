package natlab

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"cadre.dev/lab/netspace"
)

// cut is a direction between two hosts with dropped packets.
type cut struct{ from, to string }

// Partition cuts (on) or heals everything between two hosts, both ways.
func (l *Lab) Partition(a, b string, on bool) error {
	return l.setCuts(on, cut{a, b}, cut{b, a})
}

// OneWay drops packets from one host to another, silently and in that direction only, or
// lets them pass again. Hosts that share a box with either are not affected, except where
// both ends share theirs with others.
func (l *Lab) OneWay(from, to string, drop bool) error {
	return l.setCuts(drop, cut{from, to})
}

func (l *Lab) setCuts(on bool, cuts ...cut) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cuts {
		if _, err := l.find(c.from); err != nil {
			return err
		}
		if _, err := l.find(c.to); err != nil {
			return err
		}
		if on {
			l.cuts[c] = struct{}{}
		} else {
			delete(l.cuts, c)
		}
	}
	return l.applyFaults()
}

// BlockUDP drops (or lets pass again) a host's UDP in its box, both ways; that of
// a host without one on the internet.
func (l *Lab) BlockUDP(host string, on bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.find(host)
	if err != nil {
		return err
	}
	h.silent = on
	return l.applyFaults()
}

// applyFaults loads the faults' tables of all routers. They are tables of their own: the
// mappings of NATs stay.
func (l *Lab) applyFaults() error {
	rules := map[*router]*strings.Builder{l.internet: {}}
	for _, b := range l.boxes {
		rules[b.router] = &strings.Builder{}
	}
	byName := func(a, b cut) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) }
	for _, c := range slices.SortedFunc(maps.Keys(l.cuts), byName) {
		at, from, to := place(l.hosts[c.from], l.hosts[c.to])
		if at == nil {
			at = l.internet
		}
		fmt.Fprintf(rules[at], "ip saddr %s ip daddr %s drop\n", from, to)
	}
	for _, name := range slices.Sorted(maps.Keys(l.hosts)) {
		if h := l.hosts[name]; h.silent {
			at := l.internet
			if h.box != nil {
				at = h.box.router
			}
			fmt.Fprintf(rules[at], "meta l4proto udp ip saddr %s drop\nmeta l4proto udp ip daddr %s drop\n", h.addr, h.addr)
		}
	}
	for r, b := range rules {
		if err := r.apply(b.String()); err != nil {
			return err
		}
	}
	return nil
}

// place finds the router that sees both hosts most precisely, nil the internet,
// and their addresses there. In a box, the private address has not been
// translated yet, or is known already.
func place(f, t *Host) (at *router, from, to netip.Addr) {
	switch {
	case t.box != nil && t.box == f.box:
		return t.box.router, f.addr, t.addr
	case t.box != nil:
		return t.box.router, f.seen(), t.addr
	case f.box != nil:
		return f.box.router, f.addr, t.seen()
	}
	return nil, f.seen(), t.seen()
}

// apply loads a router's faults, unless they are there already.
func (r *router) apply(rules string) error {
	if rules == r.faults {
		return nil
	}
	var b strings.Builder
	b.WriteString("table ip faults {}\ndelete table ip faults\n")
	if rules != "" {
		b.WriteString("table ip faults {\n")
		// The other two are for hosts that are cabled to this router's own address.
		for _, hook := range []string{"forward", "input", "output"} {
			fmt.Fprintf(&b, "chain %s { type filter hook %s priority -10;\n%s}\n", hook, hook, rules)
		}
		b.WriteString("}\n")
	}
	if err := r.space.Rules(b.String()); err != nil {
		return err
	}
	r.faults = rules
	return nil
}

// Rebind makes the host's box forget every mapping and use other public ports
// from now on, as after a restart of the box. It concerns all hosts of the box.
func (l *Lab) Rebind(host string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.find(host)
	if err != nil {
		return err
	}
	if h.box == nil {
		return fmt.Errorf("rebind %s: it is not behind a NAT", host)
	}
	if err := l.reload(h.box, newSeed()); err != nil {
		return fmt.Errorf("rebind %s: %w", host, err)
	}
	return nil
}

// SetMTUBlackhole makes packets of more than bytes disappear on the host's link
// without a word, both ways, while interfaces and ICMP know nothing of it. 0 heals.
func (l *Lab) SetMTUBlackhole(host string, bytes int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.find(host)
	if err != nil {
		return err
	}
	h.hole = bytes
	return h.applyHole()
}

// Unplug pulls (on) or plugs the host's link. The host's own interface stays up.
func (l *Lab) Unplug(host string, on bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.find(host)
	if err != nil {
		return err
	}
	if on {
		return h.near.Space.Down(h.near.Name)
	}
	if err := h.near.Space.Up(h.near.Name); err != nil || h.emulated() {
		return err
	}
	return netspace.Settle(h.near, h.far)
}

// applyHole loads the rules of the MTU black hole at both ends of the link, each for
// arriving packets.
func (h *Host) applyHole() error {
	for _, e := range []netspace.End{h.near, h.far} {
		// Cut in segments before the link, or the rules see packets of 64 KiB.
		if err := e.Space.Whole(e.Name, h.hole == 0); err != nil {
			return err
		}
		table := "hole_" + e.Name
		rules := fmt.Sprintf("table ip %s {}\ndelete table ip %s\n", table, table)
		if h.hole > 0 {
			rules += fmt.Sprintf("table ip %s { chain prerouting { type filter hook prerouting priority raw;\niifname %s ip length > %d drop\n}\n}\n",
				table, e.Name, h.hole)
		}
		if err := e.Space.Rules(rules); err != nil {
			return err
		}
	}
	return nil
}
