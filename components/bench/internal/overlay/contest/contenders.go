package contest

import (
	"context"
	"net/netip"
	"time"

	"cadre.dev/bench/internal/overlay/baseline"
	"cadre.dev/bench/internal/overlay/certs"
	"cadre.dev/bench/internal/overlay/place"
	"cadre.dev/lab/worker"
)

// Contender carries bytes from host A to host B.
type Contender struct {
	Name string
	// optional contenders are left out, with the reason, where they do not run.
	optional bool
	setUp    func(ctx context.Context, r *rig, c *place.Cable) (*line, error)
}

// Names of the contenders.
const (
	KernelTCP   = "kernel-tcp"
	TLS         = "tls"
	Splices     = "tcp-splices"
	Predecessor = "predecessor"
	WireGuard   = "wireguard-go"
	Nebula      = "nebula"
	OursStream  = "ours-stream"         // an application's TCP over the byte-stream carrier
	OursStreamS = "ours-stream-session" // a stream of that carrier's Session itself
	OursUDP     = "ours-udp"
	OursUDPS    = "ours-udp-session"
)

// Contenders are all of them.
func Contenders() []Contender {
	return []Contender{
		{Name: KernelTCP, setUp: kernelTCP},
		{Name: TLS, setUp: overTLS},
		{Name: Splices, setUp: splices},
		{Name: Predecessor, setUp: predecessor},
		{Name: WireGuard, setUp: wireguard},
		{Name: Nebula, setUp: nebula, optional: true},
		{Name: OursStream, setUp: forwarded(streamOnly)},
		{Name: OursStreamS, setUp: session(streamOnly)},
		{Name: OursUDP, setUp: forwarded(udpOnly)},
		{Name: OursUDPS, setUp: session(udpOnly)},
	}
}

// Ports of the applications at host B, on each of its addresses.
const (
	bulkPort = 7000
	pingPort = 7001
)

// apps starts the four applications. Servers listen on an address of B.
func apps(ctx context.Context, r *rig, a, b worker.Place, listen netip.Addr, tls *baseline.TLSConfig) (*line, error) {
	var l line
	for _, part := range []struct {
		process **worker.Process
		at      worker.Place
		port    uint16
	}{{&l.bulkAt, b, bulkPort}, {nil, b, pingPort}, {&l.bulkFrom, a, 0}, {&l.pingFrom, a, 0}} {
		config := baseline.AppConfig{Sockets: r.sockets, TLS: tls}
		if part.port != 0 {
			config.At = netip.AddrPortFrom(listen, part.port).String()
		}
		p, err := r.start(ctx, part.at, "app", config)
		if err != nil {
			return nil, err
		}
		if part.process != nil {
			*part.process = p
		}
	}
	l.ends = []*worker.Process{l.bulkFrom, l.bulkAt}
	l.to(listen)
	return &l, nil
}

// to makes the clients connect to an address.
func (l *line) to(address netip.Addr) {
	l.bulkTo = netip.AddrPortFrom(address, bulkPort).String()
	l.pingTo = netip.AddrPortFrom(address, pingPort).String()
}

// through charges the line for tunnels.
func (l *line) through(tunnels ...*worker.Process) {
	l.tunnels = append(l.tunnels, tunnels...)
	l.ends = append(l.ends, tunnels...)
}

func kernelTCP(ctx context.Context, r *rig, c *place.Cable) (*line, error) {
	return apps(ctx, r, c.A, c.B, c.AddrB, nil)
}

func overTLS(ctx context.Context, r *rig, c *place.Cable) (*line, error) {
	config, err := r.tls()
	if err != nil {
		return nil, err
	}
	return apps(ctx, r, c.A, c.B, c.AddrB, &config)
}

func (e env) tls() (baseline.TLSConfig, error) {
	pair, err := e.ca.Issue("")
	if err != nil {
		return baseline.TLSConfig{}, err
	}
	return baseline.TLSConfig{Certificate: pair.Certificate, Key: pair.Key, Roots: e.ca.Roots, ServerName: certs.ServerName}, nil
}

// loopback is where applications listen that a forwarder takes connections to.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// splices joins application and application by two proxies, one at each host,
// for bulk and pings alike: a pair of proxies for each port.
func splices(ctx context.Context, r *rig, c *place.Cable) (*line, error) {
	l, err := apps(ctx, r, c.A, c.B, loopback, nil)
	if err != nil {
		return nil, err
	}
	for _, hop := range []struct {
		to      *string
		charged bool
	}{{&l.bulkTo, true}, {&l.pingTo, false}} {
		for _, at := range []struct {
			host   *place.Host
			listen netip.Addr
		}{{c.B, c.AddrB}, {c.A, loopback}} {
			p, err := r.start(ctx, at.host, "splice", baseline.SpliceConfig{Sockets: r.sockets, At: netip.AddrPortFrom(at.listen, 0).String(), To: *hop.to})
			if err != nil {
				return nil, err
			}
			if *hop.to, err = ask[string](ctx, p, "address"); err != nil {
				return nil, err
			}
			if hop.charged {
				l.through(p)
			}
		}
	}
	return l, nil
}

// predecessor takes bulk and pings through one tunnel to one port, so the bulk
// application answers the pings too.
func predecessor(ctx context.Context, r *rig, c *place.Cable) (*line, error) {
	l, err := apps(ctx, r, c.A, c.B, loopback, nil)
	if err != nil {
		return nil, err
	}
	tls, err := r.tls()
	if err != nil {
		return nil, err
	}
	dialer, err := r.start(ctx, c.A, "predecessor", baseline.PredecessorConfig{Sockets: r.sockets, Client: true, At: netip.AddrPortFrom(loopback, 0).String(), TLS: tls})
	if err != nil {
		return nil, err
	}
	acceptor, err := r.start(ctx, c.B, "predecessor", baseline.PredecessorConfig{Sockets: r.sockets, To: l.bulkTo, TLS: tls})
	if err != nil {
		return nil, err
	}
	ofDialer, err := ask[baseline.ICEOffer](ctx, dialer, "offer")
	if err != nil {
		return nil, err
	}
	ofAcceptor, err := ask[baseline.ICEOffer](ctx, acceptor, "offer")
	if err != nil {
		return nil, err
	}
	accepted := make(chan error, 1)
	go func() { accepted <- acceptor.Call(ctx, "connect", ofDialer, nil) }()
	var address string
	err = dialer.Call(ctx, "connect", ofAcceptor, &address)
	if acceptErr := <-accepted; err == nil {
		err = acceptErr
	}
	if err != nil {
		return nil, err
	}
	l.bulkTo, l.pingTo = address, address
	l.through(dialer, acceptor)
	return l, nil
}

// Addresses inside the tunnels that make a network of their own.
var (
	insideA = netip.MustParsePrefix("10.77.0.1/24")
	insideB = netip.MustParsePrefix("10.77.0.2/24")
)

const tunnelPort = 51820

func wireguard(ctx context.Context, r *rig, c *place.Cable) (*line, error) {
	keyA, publicA, err := baseline.WireGuardKey()
	if err != nil {
		return nil, err
	}
	keyB, publicB, err := baseline.WireGuardKey()
	if err != nil {
		return nil, err
	}
	a, err := r.start(ctx, c.A, "wireguard", baseline.WireGuardConfig{
		Key: keyA, Peer: publicB, Port: tunnelPort, Endpoint: netip.AddrPortFrom(c.AddrB, tunnelPort), Address: insideA, Remote: insideB.Addr(),
	})
	if err != nil {
		return nil, err
	}
	b, err := r.start(ctx, c.B, "wireguard", baseline.WireGuardConfig{
		Key: keyB, Peer: publicA, Port: tunnelPort, Endpoint: netip.AddrPortFrom(c.AddrA, tunnelPort), Address: insideB, Remote: insideA.Addr(),
	})
	if err != nil {
		return nil, err
	}
	return network(ctx, r, c, a, b)
}

func nebula(ctx context.Context, r *rig, c *place.Cable) (*line, error) {
	ids, err := baseline.NebulaIdentities(insideA, insideB)
	if err != nil {
		return nil, err
	}
	a, err := r.start(ctx, c.A, "nebula", baseline.NebulaConfig{
		NebulaIdentity: ids[0], Port: tunnelPort, Remote: insideB.Addr(), Endpoint: netip.AddrPortFrom(c.AddrB, tunnelPort),
	})
	if err != nil {
		return nil, err
	}
	b, err := r.start(ctx, c.B, "nebula", baseline.NebulaConfig{
		NebulaIdentity: ids[1], Port: tunnelPort, Remote: insideA.Addr(), Endpoint: netip.AddrPortFrom(c.AddrA, tunnelPort),
	})
	if err != nil {
		return nil, err
	}
	return network(ctx, r, c, a, b)
}

// network is applications that talk over a tunnel's own network. It returns when
// the tunnel's handshake is over.
func network(ctx context.Context, r *rig, c *place.Cable, a, b *worker.Process) (*line, error) {
	l, err := apps(ctx, r, c.A, c.B, insideB.Addr(), nil)
	if err != nil {
		return nil, err
	}
	l.through(a, b)
	_, err = l.ping(ctx, time.Millisecond)
	return l, err
}
