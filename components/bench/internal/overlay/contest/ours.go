package contest

import (
	"context"
	"net/netip"
	"time"

	"cadre.dev/bench/internal/overlay/certs"
	"cadre.dev/bench/internal/overlay/ours"
	"cadre.dev/bench/internal/overlay/place"
	"cadre.dev/lab/worker"
	"cadre.dev/overlay"
)

// ways are the Carriers that a measurement allows.
type ways []ours.Carrier

var (
	streamOnly = ways{ours.Gateway}
	tcpOnly    = ways{ours.TCP}
	udpOnly    = ways{ours.UDP}
	direct     = ways{ours.UDP, ours.TCP}
	// usual are a node's default ways, except for the relay, which takes over where no other way
	// works.
	usual = ways{ours.Gateway, ours.TCP, ours.UDP}
)

// rendezvous reports whether the ways need one.
func (w ways) rendezvous() bool {
	for _, c := range w {
		if c != ours.Gateway {
			return true
		}
	}
	return false
}

const (
	cluster = "bench.cadre"
	domain  = "gateway.bench"
	// sessionPort is where host B's node listens.
	sessionPort = 7443
	// linkTime is how long a Session may take to come up.
	linkTime = 20 * time.Second
)

// VIPs, the same on both hosts' loopback.
var (
	vipA = netip.AddrFrom4([4]byte{127, 50, 0, 1})
	vipB = netip.AddrFrom4([4]byte{127, 50, 0, 2})
)

// site is a host of a pair.
type site struct {
	at   worker.Place
	addr netip.Addr
}

// kind is the kind of the node at host B.
type kind string

const (
	// coordinator makes the Session one with control connections.
	coordinator kind = overlay.CoordinatorGroup
	// workerToo may leave and come back: a Boot that a coordinator's peer map has
	// named and names no longer is revoked at the rendezvous.
	workerToo kind = "worker"
)

// pair is two nodes: A, a worker, dials B; A's applications reach two ports of B.
type pair struct {
	rig          *rig
	siteA, siteB site
	ways         ways
	specA, specB ours.Node
	a, b         *worker.Process
}

// newPair starts both nodes and returns when their Session is up over any of the
// ways. rdv is the rendezvous; nil where the ways need none.
func newPair(ctx context.Context, r *rig, who kind, a, b site, w ways, rdv []ours.Rendezvous) (*pair, error) {
	p := &pair{rig: r, siteA: a, siteB: b, ways: w}
	var err error
	if p.specA, p.specB, err = r.specs(who, b.addr, w, rdv); err != nil {
		return nil, err
	}
	if p.b, err = r.start(ctx, b.at, "node", p.specB); err != nil {
		return nil, err
	}
	if p.a, err = r.start(ctx, a.at, "node", p.specA); err != nil {
		return nil, err
	}
	return p, p.upWithin(ctx, linkTime, w...)
}

// upWithin waits for both ends' Session over any of the Carriers.
func (p *pair) upWithin(ctx context.Context, limit time.Duration, over ...ours.Carrier) error {
	args := ours.Await{Carriers: over, Within: limit}
	if err := p.a.Call(ctx, "await", args, nil); err != nil {
		return err
	}
	return p.b.Call(ctx, "await", args, nil)
}

// specs are the configs of both nodes; addrB is where B listens.
func (e env) specs(who kind, addrB netip.Addr, w ways, rdv []ours.Rendezvous) (a, b ours.Node, err error) {
	a, certA, err := e.node("spiffe://" + cluster + "/worker/worker-0")
	if err != nil {
		return a, b, err
	}
	b, certB, err := e.node("spiffe://" + cluster + "/" + string(who) + "/" + string(who) + "-1")
	if err != nil {
		return a, b, err
	}
	reached := []uint16{bulkPort, pingPort}
	a.VIP, b.VIP = vipA, vipB
	a.Listen, b.Listen = ":0", netip.AddrPortFrom(netip.IPv4Unspecified(), sessionPort).String()
	a.Address = netip.AddrPortFrom(addrB, sessionPort).String()
	a.Carriers, b.Carriers, a.Rendezvous, b.Rendezvous = w, w, rdv, rdv
	a.Peers = []ours.Peer{{ID: b.ID, Boot: overlay.BootID(certB.Leaf), Instance: "b", VIP: vipB, Offers: reached, Coordinator: who == coordinator}}
	b.Peers = []ours.Peer{{ID: a.ID, Boot: overlay.BootID(certA.Leaf), Instance: "a", VIP: vipA, Accepts: reached}}
	return a, b, nil
}

// node makes a Node with credentials and no Peers.
func (e env) node(id string) (ours.Node, certs.Pair, error) {
	pair, err := e.ca.Issue(id)
	if err != nil {
		return ours.Node{}, certs.Pair{}, err
	}
	return ours.Node{ID: id, Certificate: pair.Certificate, Key: pair.Key, Roots: e.ca.Roots, Domain: domain, Debug: e.debug}, pair, nil
}

// apps starts applications that reach each other through the pair.
func (p *pair) apps(ctx context.Context) (*line, error) {
	l, err := apps(ctx, p.rig, p.siteA.at, p.siteB.at, vipB, nil)
	if err != nil {
		return nil, err
	}
	l.through(p.a, p.b)
	return l, nil
}

// session is the pair's Session itself as a line.
func (p *pair) session() *line {
	both := []*worker.Process{p.a, p.b}
	return &line{bulkFrom: p.b, bulkAt: p.b, pingFrom: p.a, ends: both, tunnels: both, session: true}
}

// onCable is a pair on the clean cable. The rendezvous, where one is needed, runs at host B: it is
// idle once the Session is up, and its CPU time is charged to no contender.
func onCable(ctx context.Context, r *rig, c *place.Cable, w ways) (*pair, error) {
	var rdv []ours.Rendezvous
	if w.rendezvous() {
		var err error
		if rdv, err = r.rendezvous(ctx, site{c.B, c.AddrServer}); err != nil {
			return nil, err
		}
	}
	return newPair(ctx, r, coordinator, site{c.A, c.AddrA}, site{c.B, c.AddrB}, w, rdv)
}

// forwarded is applications' connections through the overlay.
func forwarded(w ways) func(context.Context, *rig, *place.Cable) (*line, error) {
	return func(ctx context.Context, r *rig, c *place.Cable) (*line, error) {
		p, err := onCable(ctx, r, c, w)
		if err != nil {
			return nil, err
		}
		return p.apps(ctx)
	}
}

// session is the streams of a Session.
func session(w ways) func(context.Context, *rig, *place.Cable) (*line, error) {
	return func(ctx context.Context, r *rig, c *place.Cable) (*line, error) {
		p, err := onCable(ctx, r, c, w)
		if err != nil {
			return nil, err
		}
		return p.session(), nil
	}
}
