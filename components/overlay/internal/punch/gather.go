package punch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

const (
	// maxReflectors is how many are asked, and maxHosts how many addresses of
	// own interfaces are offered.
	maxReflectors = 3
	maxHosts      = 3
	// reflectorTime is how long a reflector may take.
	reflectorTime = 4 * time.Second
	// othersTime is how long other reflectors may take once one has answered.
	othersTime = 100 * time.Millisecond
)

// view is one reflector's view of the host.
type view struct {
	conn   net.Conn
	mapped netip.AddrPort
	rtt    time.Duration
}

// bind takes the same port for both families, or for the only one. The listener holds the
// port for as long as Local lives and takes SYNs that come when we have none under way.
func (l *Local) bind(ctx context.Context) error {
	lc := net.ListenConfig{Control: shared}
	lc.SetMultipathTCP(false)
	var errs []error
	for _, family := range []string{"tcp4", "tcp6"} {
		ln, err := lc.Listen(ctx, family, net.JoinHostPort("", strconv.Itoa(l.port)))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		tcp := ln.(*net.TCPListener)
		l.listeners = append(l.listeners, tcp)
		l.port = tcp.Addr().(*net.TCPAddr).Port
		l.network.ip4 = l.network.ip4 || family == "tcp4"
		l.network.ip6 = l.network.ip6 || family == "tcp6"
		if err := shorten(tcp); err != nil {
			return err
		}
	}
	if len(l.listeners) == 0 {
		return errors.Join(errs...)
	}
	return nil
}

// dialer dials from the port.
func (l *Local) dialer() *net.Dialer {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{Port: l.port}, Control: shared}
	d.SetMultipathTCP(false)
	return d
}

// reflect asks all reflectors at once and keeps the connections to the answering ones.
// The error lists the others and is nil without others.
func (l *Local) reflect(ctx context.Context, reflectors []string) ([]view, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reflectorTime, errors.New("reflector took too long"))
	defer cancel()
	type answer struct {
		view
		err error
	}
	answers := make(chan answer)
	asked := 0
	for _, r := range reflectors[:min(len(reflectors), maxReflectors)] {
		for _, ln := range l.listeners {
			family := "tcp4"
			if addrPort(ln.Addr()).Addr().Is6() {
				family = "tcp6"
			}
			asked++
			go func() {
				v, err := l.ask(ctx, family, r)
				answers <- answer{v, err}
			}()
		}
	}
	var views []view
	var errs []error
	for range asked {
		a := <-answers // comes soon after ctx ends
		if a.err != nil {
			l.log.Debug("reflector gave no address", "error", a.err)
			errs = append(errs, a.err)
			continue
		}
		if views = append(views, a.view); len(views) == 1 {
			t := time.AfterFunc(othersTime+2*a.rtt, cancel)
			defer t.Stop()
		}
		l.reflectors = append(l.reflectors, a.conn)
	}
	return views, errors.Join(errs...)
}

// ask asks one reflector, from the port.
func (l *Local) ask(ctx context.Context, family, reflector string) (view, error) {
	conn, err := l.dialer().DialContext(ctx, family, reflector)
	if err != nil {
		return view{}, fmt.Errorf("reach reflector %s: %w", reflector, err)
	}
	mapped, rtt, err := mappedAddress(ctx, conn)
	if err == nil {
		err = l.allow(mapped.Addr(), true)
	}
	if err != nil {
		conn.Close()
		return view{}, fmt.Errorf("reflector %s: %w", reflector, err)
	}
	if in, err := info(conn.(*net.TCPConn)); err == nil && in.MinRTT > 0 {
		rtt = min(rtt, in.MinRTT)
	}
	return view{conn, mapped, rtt}, nil
}

// place records the host's place from the views and the interfaces.
func (l *Local) place(views []view) {
	for i, v := range views {
		l.network.mapped = append(l.network.mapped, v.mapped.Addr())
		if i == 0 || v.rtt/2 < l.oneWay {
			l.oneWay = v.rtt / 2
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		l.log.Debug("interfaces not read", "error", err)
	}
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, _ := netip.AddrFromSlice(n.IP)
		bits, _ := n.Mask.Size()
		if ip = ip.Unmap(); l.allow(ip, true) == nil {
			l.network.attached = append(l.network.attached, netip.PrefixFrom(ip, bits))
		}
	}
}

// offer makes the candidates, the best first: where there is not room for all,
// the last are left out.
func (l *Local) offer(c Config, views []view) {
	add := func(k Kind, a netip.AddrPort) {
		known := slices.ContainsFunc(l.candidates, func(o Candidate) bool { return o.Addr == a })
		if !known && len(l.candidates) < MaxCandidates {
			l.candidates = append(l.candidates, Candidate{k, a})
		}
	}
	for _, v := range views {
		add(Mapped, v.mapped)
	}
	for _, a := range c.Advertise {
		if a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port()); l.allow(a.Addr(), true) == nil && a.Port() != 0 {
			add(Listen, a)
		}
	}
	own := slices.Clone(l.network.mapped)
	if c.Hosts {
		hosts := l.hosts(views)
		for _, h := range hosts {
			add(Host, netip.AddrPortFrom(h, uint16(l.port)))
		}
		own = append(own, hosts...)
	}
	for _, a := range own {
		if c.ListenPort != 0 {
			add(Listen, netip.AddrPortFrom(a, c.ListenPort))
		}
	}
}

// hosts are the addresses of own interfaces to offer, beginning with the interfaces that
// lead to the reflectors.
func (l *Local) hosts(views []view) []netip.Addr {
	var out []netip.Addr
	add := func(a netip.Addr) {
		if len(out) < maxHosts && !slices.Contains(out, a) && (a.Is4() && l.network.ip4 || a.Is6() && l.network.ip6) {
			out = append(out, a)
		}
	}
	for _, v := range views {
		add(addrPort(v.conn.LocalAddr()).Addr())
	}
	for _, p := range l.network.attached {
		add(p.Addr())
	}
	return out
}
