package overlay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/door"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/link"
)

// ErrNoCredentials reports a try before [Node.SetCredentials].
var ErrNoCredentials = errors.New("node has no credentials yet")

// Node keeps a Session with every Peer and forwards their ports. Make it with
// [New]; all methods may be called concurrently.
type Node struct {
	// Constant after New.
	cfg    Config
	log    *slog.Logger
	limits limits

	creds     atomic.Pointer[Credentials]
	haveCreds chan struct{} // closed by the first SetCredentials
	credsOnce sync.Once
	counts    nodeCounts
	sessions  atomic.Uint64 // numbers Sessions
	epoch     atomic.Uint64 // the highest of any Link that is gone
	benching  chan struct{} // one place: a bench, on either side

	handshakes, admissions *door.Door
	parked                 chan struct{} // semaphore

	paths   *paths          // nil where none are looked for; set before any link is made
	changes chan PathChange // for OnPathChange

	mu      sync.Mutex
	peers   map[ID]Peer      // guarded by mu
	changed chan struct{}    // closed and renewed by SetPeers; guarded by mu
	small   bool             // the node's own group is small; guarded by mu
	revoked []string         // Boots that the map dropped; guarded by mu
	links   map[ID]*peerLink // nil unless running; guarded by mu
	// launch runs f as one of wg; f's context ends when the function that launch
	// returns is called, and with Run's. Set before any link is made.
	launch func(wg *sync.WaitGroup, f func(context.Context)) context.CancelFunc
	addr   net.Addr       // of the listener while running; guarded by mu
	wg     sync.WaitGroup // what Run waits for
}

// New checks cfg; nothing is opened before [Node.Run].
func New(cfg Config) (*Node, error) {
	if err := cfg.Self.Validate(); err != nil {
		return nil, fmt.Errorf("overlay config: self: %w", err)
	}
	if !cfg.SelfVIP.Is4() {
		return nil, fmt.Errorf("overlay config: self VIP %q: want an IPv4 address", cfg.SelfVIP)
	}
	if cfg.Gateway.Domain == "" && len(cfg.Rendezvous) == 0 {
		return nil, errors.New("overlay config: neither a gateway domain nor a rendezvous server: name the domain that the gateway routes by, or a server")
	}
	if err := checkPaths(cfg.Paths); err != nil {
		return nil, fmt.Errorf("overlay config: %w", err)
	}
	if cfg.Listen == "" {
		cfg.Listen = fmt.Sprintf(":%d", sessionPort)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.IdleTime < 0 {
		return nil, fmt.Errorf("overlay config: idle time %v: want a positive time, or 0 for %v", cfg.IdleTime, idleTime)
	}
	cfg.IdleTime = cmp.Or(cfg.IdleTime, idleTime)
	if cfg.Listener == nil {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false) // local apps do not speak it
		cfg.Listener = &lc
	}
	var err error
	if cfg.Serve, err = checkServe(cfg.Serve); err != nil {
		return nil, fmt.Errorf("overlay config: %w", err)
	}
	lim := cfg.limits.withDefaults()
	return &Node{
		cfg: cfg, log: cfg.Log, limits: lim,
		haveCreds:  make(chan struct{}),
		handshakes: door.New(lim.handshakes, 0, 0),
		admissions: door.New(lim.admissions, lim.lined, lim.lineTime),
		parked:     make(chan struct{}, lim.parked),
		benching:   make(chan struct{}, 1),
		peers:      make(map[ID]Peer),
		changed:    make(chan struct{}),
		changes:    make(chan PathChange, 256),
	}, nil
}

// SetCredentials replaces the node's credentials. Sessions made from now on use
// them, and the Peers of live ones are shown the new certificate: a Session lasts
// while each side has shown the other a certificate of the same Boot that has not
// expired.
func (n *Node) SetCredentials(c Credentials) {
	n.creds.Store(&c)
	n.credsOnce.Do(func() { close(n.haveCreds) })
	n.showAll()
}

// SetPeers replaces the whole peer map. Entries for the node itself, for other
// clusters or with a VIP that is not IPv4 are left out, with a warning. Before
// it returns, the Sessions of Peers and Boots that are gone can carry nothing
// new; they and their ports close within moments. Giving the same map again
// changes nothing.
func (n *Node) SetPeers(peers []Peer) {
	next := make(map[ID]Peer, len(peers))
	for _, p := range peers {
		if p.ID == n.cfg.Self {
			continue
		}
		if err := n.checkPeer(p); err != nil {
			n.log.Warn("peer left out of the map", "peer", p.ID, "error", err)
			continue
		}
		p.Offers, p.Accepts = slices.Clone(p.Offers), n.withoutPrivate(p)
		next[p.ID] = p
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.revokeLocked(next)
	n.peers, n.small = next, n.smallGroup(next)
	close(n.changed)
	n.changed = make(chan struct{})
	if n.links != nil {
		n.applyLocked()
	}
}

// maxRevoked bounds the Boots that rendezvous servers are told of. Certificates last
// for an hour; a server remembers for longer those that fall off a full list.
const maxRevoked = 256

// revokeLocked tells the rendezvous servers which Boots the next map drops. Only a
// coordinator is obeyed there.
func (n *Node) revokeLocked(next map[ID]Peer) {
	if !n.coordinator() {
		return
	}
	before := slices.Clone(n.revoked)
	for id, p := range n.peers {
		if p.BootID != "" && next[id].BootID != p.BootID {
			n.revoked = append(n.revoked, p.BootID)
		}
	}
	// A Boot that is named again, by whatever accident, is not to be shut out.
	n.revoked = slices.DeleteFunc(n.revoked, func(boot string) bool {
		for _, p := range next {
			if p.BootID == boot {
				return true
			}
		}
		return false
	})
	n.revoked = n.revoked[max(0, len(n.revoked)-maxRevoked):]
	if n.paths != nil && !slices.Equal(n.revoked, before) {
		if err := n.paths.field.Box.Revoke(n.revoked); err != nil {
			n.log.Warn("rendezvous not told of ended boots", "error", err)
		}
	}
}

func (n *Node) checkPeer(p Peer) error {
	if err := p.ID.Validate(); err != nil {
		return err
	}
	if p.ID.Cluster != n.cfg.Self.Cluster {
		return fmt.Errorf("cluster %s is not this node's %s", p.ID.Cluster, n.cfg.Self.Cluster)
	}
	if !p.VIP.Is4() {
		return fmt.Errorf("VIP %q: want an IPv4 address", p.VIP)
	}
	return nil
}

// applyLocked makes the links follow the peer map. Links that go free their
// listeners before others that may want the same address begin.
func (n *Node) applyLocked() {
	for id, l := range n.links {
		if _, keep := n.peers[id]; !keep {
			delete(n.links, id)
			l.stop(link.ErrRevoked)
		}
	}
	for id, p := range n.peers {
		if l := n.links[id]; l != nil {
			l.update(p)
			continue
		}
		n.links[id] = n.startLink(p)
	}
}

// coordinator tells whether this node is one.
func (n *Node) coordinator() bool { return n.cfg.Self.Group == CoordinatorGroup }

// dials tells whether this side opens the Sessions with p: workers dial
// coordinators; among equals the lexically smaller Slot dials.
func (n *Node) dials(p Peer) bool {
	if n.coordinator() != p.Coordinator {
		return p.Coordinator
	}
	return n.cfg.Self.Slot < p.ID.Slot
}

// Run listens and keeps Sessions until ctx ends, then closes them all and
// returns nil. Call it once. An error means that a listener could not be
// opened or broke.
func (n *Node) Run(ctx context.Context) error {
	ln, err := n.cfg.Listener.Listen(ctx, "tcp", n.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen for sessions: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := n.openPaths(ctx)
	if err != nil {
		ln.Close()
		return err
	}
	n.mu.Lock()
	n.addr, n.paths = ln.Addr(), p
	n.links = make(map[ID]*peerLink)
	n.launch = func(wg *sync.WaitGroup, f func(context.Context)) context.CancelFunc {
		ctx, cancel := context.WithCancel(ctx)
		wg.Go(func() { defer cancel(); f(ctx) })
		return cancel
	}
	n.applyLocked() //nolint:contextcheck // the Links live as long as the map names them
	n.mu.Unlock()

	if p != nil {
		n.wg.Go(func() { n.runPaths(ctx, p) })
	}
	if n.cfg.OnPathChange != nil {
		n.wg.Go(func() { n.tellAll(ctx) })
	}
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	err = n.serve(ctx, ln)

	cancel()
	n.mu.Lock()
	links := n.links
	n.links = nil
	n.mu.Unlock()
	for _, l := range links {
		l.stop(errStopped)
	}
	n.wg.Wait()
	if p != nil {
		// The links' sessions are over: nothing needs the socket any more.
		err = errors.Join(err, p.close())
	}
	return err
}

// ListenAddr is where the node listens while it runs, nil otherwise.
func (n *Node) ListenAddr() net.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// credentials waits for the first ones.
func (n *Node) credentials(ctx context.Context) (*Credentials, error) {
	select {
	case <-n.haveCreds:
		return n.creds.Load(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNoCredentials, context.Cause(ctx))
	}
}

// withoutPrivate is what the Peer may reach of this machine (OVL-08).
func (n *Node) withoutPrivate(p Peer) []PortRef {
	return slices.DeleteFunc(slices.Clone(p.Accepts), func(r PortRef) bool {
		private := slices.Contains(n.cfg.Private, r.Port)
		if private {
			n.log.Error("the peer map opens a port of this node's own; it stays closed", "peer", p.ID, "protocol", r.Protocol, "port", r.Port)
		}
		return private
	})
}

// forwardRules translates a map entry.
func forwardRules(p Peer) forward.Rules {
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

// pauseAfter keeps a listener that fails for want of resources from spinning.
const pauseAfter = 50 * time.Millisecond
