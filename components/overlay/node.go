package overlay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"cadre.dev/overlay/internal/accept"
	"cadre.dev/overlay/internal/admission"
	"cadre.dev/overlay/internal/counters"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/internal/measure"
	"cadre.dev/overlay/internal/peer"
	"cadre.dev/overlay/internal/peermap"
	"cadre.dev/overlay/internal/recertify"
	"cadre.dev/overlay/internal/search"
	"cadre.dev/overlay/internal/session"
)

// Node has Sessions with the Peers of its map and forwards their ports. Make it with
// [New]; all methods may be called concurrently.
type Node struct {
	// Constant after New.
	cfg      Config
	self     *peermap.Self
	current  *peermap.Current
	maker    *session.Maker
	acceptor *accept.Server
	first    *admission.Server // of first contacts
	counters counters.Counters
	benches  *measure.Place
	epochs   peer.Epochs
	changes  chan PathChange // for OnPathChange

	mu      sync.Mutex
	revoked []string          // Boots that the map dropped; guarded by mu
	running *running          // nil unless running; guarded by mu
	peers   map[ID]*peer.Peer // nil unless running; guarded by mu
	addr    net.Addr          // of the listener while running; guarded by mu
	wg      sync.WaitGroup    // the goroutines that Run waits for
}

// running is the state of a Node while it runs. Constant.
type running struct {
	shared    peer.Shared
	itself    *forward.Self
	field     *search.Field      // nil where no paths are looked for
	datagrams *session.Datagrams // as well
}

// New checks cfg; nothing is opened before [Node.Run].
func New(cfg Config) (*Node, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	lim := cfg.limits
	n := &Node{cfg: cfg, self: cfg.self(), benches: measure.NewPlace(), changes: make(chan PathChange, 256)}
	n.current = peermap.NewCurrent(n.self, lim.parked, lim.parkTime)
	n.maker = session.NewMaker(session.Config{
		Self: cfg.Self, Gateway: cfg.Gateway, Admission: cfg.ServeAdmission != nil,
		DialTime: lim.dialTime, HandshakeTime: lim.handshakeTime,
		Authorize: n.current.Authorize, Deliver: n.deliver, Counters: &n.counters, Log: cfg.Log,
	})
	n.first = admission.NewServer(admission.Config{
		Places: lim.admissions, Time: lim.admissionTime, Line: lim.lined, LineTime: lim.lineTime,
		Silent: lim.silentPatience, Exchange: lim.exchangePatience,
		Serve: cfg.ServeAdmission, Counters: &n.counters, Log: cfg.Log,
	})
	n.acceptor = accept.New(accept.Config{
		Handshakes: lim.handshakes, Time: lim.handshakeTime, Patience: lim.handshakePatience,
		Maker: n.maker, FirstContact: n.first.Take, Counters: &n.counters, Log: cfg.Log,
	})
	return n, nil
}

// SetCredentials replaces the node's credentials. Later Sessions use them, and the Peers
// of live Sessions get the new certificate. A Session lasts while each side has sent the
// other an unexpired certificate of the same Boot.
func (n *Node) SetCredentials(c Credentials) {
	n.maker.SetCredentials(c)
	for _, p := range n.all() {
		p.ShowCertificate()
	}
}

// SetPeers replaces the whole peer map. Entries for the node itself, for other
// clusters or with a VIP that is not IPv4 are left out, with a warning. Before
// it returns, the Sessions of Peers and Boots that are gone can carry nothing
// new; they and their ports close within moments. Giving the same map again
// changes nothing.
func (n *Node) SetPeers(peers []Peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before, _ := n.current.Get()
	next := n.self.Read(peers, before)
	n.current.Set(next)
	if n.self.Coordinator() {
		n.revokeLocked(before.Revoked(n.revoked, next))
	}
	if n.running != nil {
		n.applyLocked(before, next)
	}
}

// revokeLocked reports the ended Boots to the rendezvous servers. The servers accept that
// only from a coordinator.
func (n *Node) revokeLocked(boots []string) {
	same := slices.Equal(boots, n.revoked)
	n.revoked = boots
	if same || n.running == nil || n.running.field == nil {
		return
	}
	if err := n.running.field.Box.Revoke(boots); err != nil {
		n.cfg.Log.Warn("rendezvous refused ended boots", "error", err)
	}
}

// applyLocked makes the Peers follow the map. Peers that leave free their listeners before
// new Peers that may need the same address begin.
func (n *Node) applyLocked(before, m peermap.Map) {
	changed, gone := m.Changed(before)
	for _, entry := range gone {
		if p := n.peers[entry.ID]; p != nil {
			delete(n.peers, entry.ID)
			n.stop(p, link.ErrRevoked)
		}
	}
	for _, entry := range changed {
		if p := n.peers[entry.ID]; p != nil {
			p.Update(entry, m.Facts(entry))
			continue
		}
		n.peers[entry.ID] = peer.New(&n.running.shared, entry, m.Facts(entry))
	}
	n.running.itself.Update(m.SelfPorts())
}

// stop ends a Peer; Run waits for its remaining goroutines.
func (n *Node) stop(p *peer.Peer, reason error) {
	p.Stop(reason)
	n.wg.Go(p.Wait)
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
	r, err := n.open(ctx)
	if err != nil {
		ln.Close()
		return err
	}
	n.mu.Lock()
	n.addr, n.running, n.peers = ln.Addr(), r, map[ID]*peer.Peer{}
	current, _ := n.current.Get()
	n.applyLocked(peermap.Map{}, current) //nolint:contextcheck // the Links live as long as the map names them
	n.mu.Unlock()

	if r.field != nil {
		n.wg.Go(func() { r.field.Run(ctx, n.heard, n.hope) })
		n.wg.Go(func() { r.datagrams.Run(ctx, n.behind) })
	}
	if n.cfg.OnPathChange != nil {
		n.wg.Go(func() { n.reportChanges(ctx) })
	}
	err = n.acceptor.Run(ctx, ln)

	cancel()
	n.mu.Lock()
	peers := n.peers
	n.running, n.peers = nil, nil
	n.mu.Unlock()
	r.itself.Stop()
	n.wg.Go(r.itself.Wait)
	for _, p := range peers {
		n.stop(p, peer.ErrStopped)
	}
	n.wg.Wait()
	// The Sessions are over: nothing needs the socket any more.
	return errors.Join(err, r.close())
}

// open makes the node's running state. The goroutines of the Peers end with ctx.
func (n *Node) open(ctx context.Context) (*running, error) {
	r := &running{}
	if len(n.cfg.Rendezvous) > 0 {
		var err error
		if r.field, err = search.Open(ctx, search.Options{
			Servers: n.cfg.servers(), Identity: n.mailboxIdentity,
			Listen: n.cfg.ListenUDP, Listener: n.cfg.Listener, Allows: n.cfg.allows,
			PublicOnly: n.cfg.PublicOnly, Loopback: n.cfg.limits.loopback, Searches: n.cfg.limits.searches, Log: n.cfg.Log,
		}); err != nil {
			return nil, err
		}
		socket := r.field.Socket
		if r.datagrams, err = n.maker.OverUDP(socket.QUIC(), socket.LocalAddr()); err != nil { //nolint:contextcheck // it listens until it is closed
			return nil, errors.Join(err, r.close())
		}
	}
	r.itself = forward.NewSelf(forward.Config{SelfVIP: n.cfg.SelfVIP, Listener: n.cfg.Listener, Log: n.cfg.Log})
	r.shared = peer.Shared{
		Self: n.self, SelfVIP: n.cfg.SelfVIP, Listener: n.cfg.Listener, Log: n.cfg.Log, Counters: &n.counters,
		Maker: n.maker, Datagrams: r.datagrams, Field: r.field,
		Certificates: &recertify.Exchanger{Credentials: n.maker.Credentials, Counters: &n.counters},
		Benches:      &measure.Part{Place: n.benches, Counters: &n.counters},
		Epochs:       &n.epochs, Serve: n.cfg.Serve, OnControl: n.cfg.OnControl,
		IdleTime: n.cfg.IdleTime, DemandTime: n.cfg.limits.demandTime, HurryTime: n.cfg.limits.hurryTime, Streams: n.cfg.limits.streams,
		Launch: func(wg *sync.WaitGroup, f func(context.Context)) context.CancelFunc {
			ctx, cancel := context.WithCancel(ctx)
			wg.Go(func() { defer cancel(); f(ctx) })
			return cancel
		},
	}
	if n.cfg.OnPathChange != nil {
		r.shared.Report = n.queueChange
	}
	return r, nil
}

func (r *running) close() error {
	var err error
	if r.datagrams != nil {
		err = r.datagrams.Close()
	}
	if r.field != nil {
		err = errors.Join(err, r.field.Close())
	}
	return err
}

// ListenAddr is where the node listens while it runs, nil otherwise.
func (n *Node) ListenAddr() net.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// mailboxIdentity is the node's identity towards a rendezvous, once it has credentials.
func (n *Node) mailboxIdentity() (mailbox.Identity, bool) {
	creds := n.maker.Credentials()
	if creds == nil {
		return mailbox.Identity{}, false
	}
	return mailbox.Identity{ID: n.cfg.Self, Certificate: creds.Certificate, Roots: creds.Roots}, true
}

// all gives the Peers in no order.
func (n *Node) all() []*peer.Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]*peer.Peer, 0, len(n.peers))
	for _, p := range n.peers {
		list = append(list, p)
	}
	return list
}

// peer finds a Peer of the map.
func (n *Node) peer(id ID) (*peer.Peer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[id]; p != nil {
		return p, nil
	}
	return nil, ErrUnknownPeer
}

// errPathNotAllowed ends a Session on a kind of path that this node does not use.
var errPathNotAllowed = errors.New("this kind of path is not allowed here")

// deliver hands a Session that a Peer opened to it.
func (n *Node) deliver(s *session.Session) {
	refusal := ErrPeerNotAdmitted
	if !n.cfg.allows(s.Class) {
		refusal = errPathNotAllowed
	} else if p, err := n.peer(s.Who.ID); err == nil && p.Connected(s) {
		return
	}
	s.Close(refusal)
	s.Wait()
}

// heard hands a message to its sender's Peer. A message of a Boot that the map does not
// name is dropped: its sender is genuine, but not admitted.
func (n *Node) heard(in mailbox.Incoming) {
	if !n.current.Admits(in.From) {
		n.counters.NotAdmitted.Add(1)
		return
	}
	if p, err := n.peer(in.From.ID); err == nil {
		p.Heard(in.From, in.Message)
	}
}

// hope reports to every Peer that a rendezvous is reachable again.
func (n *Node) hope() {
	for _, p := range n.all() {
		p.RendezvousUp()
	}
}

// behind finds the Peer that a virtual address belongs to.
func (n *Node) behind(addr net.Addr) (session.Behind, bool) {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return nil, false
	}
	want := udp.AddrPort()
	for _, p := range n.all() {
		if at := p.VirtualAddr(); at == want && at != (netip.AddrPort{}) {
			return p, true
		}
	}
	return nil, false
}

// queueChange queues a change for OnPathChange; a full queue drops the oldest change.
func (n *Node) queueChange(c PathChange) {
	for {
		select {
		case n.changes <- c:
			return
		default:
		}
		select {
		case <-n.changes:
		default:
		}
	}
}

// reportChanges runs OnPathChange until ctx ends.
func (n *Node) reportChanges(ctx context.Context) {
	for {
		select {
		case c := <-n.changes:
			n.cfg.OnPathChange(c)
		case <-ctx.Done():
			return
		}
	}
}
