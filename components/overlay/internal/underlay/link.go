package underlay

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/underlay/paths"
)

// Kind is the way of a path to the Peer.
type Kind = paths.Kind

const (
	// Direct goes straight to an address of the Peer's.
	Direct = paths.Direct
	// Relay goes through a relay's allocation.
	Relay = paths.Relay
)

// Path is a way to the Peer that a search found. Both sides have checked that
// it works; the Link starts to send to it at once.
type Path struct {
	// Search names the search that found it.
	Search string
	Kind   Kind
	// Remote is where to send; with a Relay it informs people only.
	Remote netip.AddrPort
	// Relay is our relay. It is nil for Direct, and where only the Peer uses a relay,
	// which is then at Remote. Each Write and each Read carries one datagram. The Link
	// owns it from Add on and closes it.
	Relay net.Conn
	// Relays are addresses of the Peer's that are a relay's: a path that turns up at
	// one of them is no direct one.
	Relays []netip.AddrPort
	// Answered is the round trip of an authenticated check that the Peer answered at
	// Remote just now, 0 without such a check. A path with an answered check is used at
	// once: another question would cost a round trip and prove nothing more (OVL-13).
	Answered time.Duration
	// Key is the secret of the search, the same on both sides.
	Key [32]byte
	// Initiator is true on one side and false on the other.
	Initiator bool
}

// path is one path of a Link.
type path struct {
	// Constant.
	id     paths.ID
	link   *Link
	search *search
	kind   Kind
	relay  *relay // nil unless it is a relay of ours
	source net.Conn

	// remote is where a path without a relay of ours sends to; that of a direct one
	// moves with the Peer's mapping.
	remote atomic.Pointer[netip.AddrPort]
	// accepted: the path has been validated and consent has not run out.
	accepted atomic.Bool
	// whole: the kernel cannot segment on the way out of this path.
	whole atomic.Bool

	sent, received    atomic.Uint64 // QUIC's datagrams
	bytesOut, bytesIn atomic.Uint64

	// Guarded by the Link's mu: sent and received as of the last look.
	seenSent, seenReceived uint64
}

// search is the part that the paths of one search share. The Link's mu guards all fields
// except the constants.
type search struct {
	name     string
	link     *Link
	key      uint64 // names the secret on the wire
	in, out  *sealer
	secret   [32]byte
	paths    int
	seq      uint64 // of the next probe
	window   window // of the Peer's
	pending  []challenge
	relays   []netip.AddrPort // of the Peer's, as far as known
	asInit   bool
	released bool
}

// Link is one Peer as the underlay sees it. All its methods may be called at any
// time, from any goroutine.
type Link struct {
	// Constant.
	s       *Socket
	name    string
	log     *slog.Logger
	virtual *net.UDPAddr
	key     virtualKey
	made    time.Duration

	// The hot path.
	out     atomic.Pointer[path] // where to send; nil for nowhere
	busy    atomic.Bool          // the driver knows that there is traffic
	resends resendBuffer

	nextTick  atomic.Int64 // a time of the Socket's
	authentic atomic.Int64 // when the last authentic probe came

	mu        sync.Mutex // taken before the Socket's
	closed    bool
	state     paths.State
	paths     []*path // by id
	searches  map[string]*search
	lastID    paths.ID
	published map[netip.AddrPort]*path // this Link's part of the sources table
	notify    func(Event)              // nil before Follow
	events    []Event                  // not delivered yet
	notifying bool                     // a goroutine does
	running   sync.WaitGroup           // the goroutines of the Link and of its relays
}

// NewLink makes the Link of a Peer; name is for the log. On a closed Socket it
// gives a closed Link.
func (s *Socket) NewLink(name string) *Link {
	l := &Link{
		s: s, name: name, log: s.log.With("peer", name), made: s.now(),
		searches: make(map[string]*search),
	}
	l.virtual, l.key = newVirtual()
	l.nextTick.Store(int64(time.Hour))
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.closed = true
		return l
	}
	s.links[l] = struct{}{}
	s.mu.Unlock()
	changeTable(s, &s.virtuals, func(m map[virtualKey]*Link) { m[l.key] = l })
	return l
}

// VirtualAddr is the address that QUIC knows the Peer by. It exists nowhere, is
// no other Link's in this process, and stays the same for the Link's life.
func (l *Link) VirtualAddr() *net.UDPAddr {
	a := *l.virtual
	a.IP = slices.Clone(a.IP)
	return &a
}

// Add adds a path, or refreshes the same path of the same search, and probes it at once.
// A search has at most 4 paths and a Link at most 12. Above that, a path that does not
// work makes way, and without such a path the new path is closed again.
func (l *Link) Add(p Path) {
	p.Remote = normal(p.Remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	if reason := l.refuseLocked(p); reason != "" {
		if p.Relay != nil {
			_ = p.Relay.Close()
		}
		l.log.Warn("path refused", "search", p.Search, "path", p.Remote, "reason", reason)
		return
	}
	for _, old := range l.paths {
		if old.search.name != p.Search || old.kind != p.Kind || old.source != p.Relay ||
			p.Relay == nil && *old.remote.Load() != p.Remote {
			continue
		}
		if old.search.secret == p.Key && old.search.asInit == p.Initiator {
			old.search.learn(p.Relays)
			l.state.Ask(old.id)
			l.stepLocked(l.s.now())
			return
		}
	}
	a := l.searchLocked(p)
	a.learn(p.Relays)
	if n := l.addLocked(a, p); n != nil && p.Relay == nil && p.Answered > 0 {
		l.state.Proven(l.s.now(), n.id, p.Answered)
	}
	l.stepLocked(l.s.now())
}

// refuseLocked returns why a path is rejected before any try, "" if it is accepted.
func (l *Link) refuseLocked(p Path) string {
	switch {
	case l.closed:
		return "link is closed"
	case p.Search == "":
		return "no search"
	case p.Relay == nil && (!p.Remote.IsValid() || p.Remote.Port() == 0 || p.Remote.Addr().IsUnspecified() || p.Remote.Addr().IsMulticast()):
		return "no usable address"
	case p.Kind == Direct && p.Relay != nil:
		return "kind and relay do not agree"
	case p.Kind != Direct && p.Kind != Relay:
		return "unknown kind"
	}
	return ""
}

// relaysKept bounds the relays of a Peer's that a search knows.
const relaysKept = 16

// learn notes which of the Peer's addresses are relays.
func (a *search) learn(relays []netip.AddrPort) {
	for _, r := range relays {
		if r = normal(r); len(a.relays) < relaysKept && !slices.Contains(a.relays, r) {
			a.relays = append(a.relays, r)
		}
	}
}

// searchLocked finds or makes the search of a path. A search that comes back
// with another secret is another search.
func (l *Link) searchLocked(p Path) *search {
	if a := l.searches[p.Search]; a != nil {
		if a.secret == p.Key && a.asInit == p.Initiator {
			return a
		}
		l.forgetLocked(p.Search, "search has a new secret")
	}
	a := &search{
		name: p.Search, link: l, key: keyID(p.Key), secret: p.Key, asInit: p.Initiator,
		in: newSealer(p.Key, !p.Initiator), out: newSealer(p.Key, p.Initiator),
		// A search that is forgotten and added again must not repeat itself.
		seq: uint64(time.Now().UnixMicro()),
	}
	l.searches[a.name] = a
	changeTable(l.s, &l.s.keys, func(m map[uint64]*search) { m[a.key] = a })
	return a
}

// addLocked makes a path of p, if there is room.
func (l *Link) addLocked(a *search, p Path) *path {
	evict, ok := l.state.Room(a.name)
	if !ok {
		l.log.Warn("path refused", "search", a.name, "path", p.Remote, "reason", "too many paths")
		if p.Relay != nil {
			_ = p.Relay.Close()
		}
		l.releaseLocked(a)
		return nil
	}
	a.paths++ // before the eviction, which may empty the search
	if evict != 0 {
		l.dropLocked(evict, "made way for another")
	}
	l.lastID++
	n := &path{id: l.lastID, link: l, search: a, kind: p.Kind, source: p.Relay}
	n.remote.Store(&p.Remote)
	l.paths = append(l.paths, n)
	l.state.Add(l.s.now(), n.id, a.name, p.Kind)
	if p.Relay != nil {
		n.relay = newRelay(n, p.Relay)
	}
	return n
}

// Forget drops the paths of a search.
func (l *Link) Forget(search string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.forgetLocked(search, "search forgotten")
	l.stepLocked(l.s.now())
}

func (l *Link) forgetLocked(name, reason string) {
	for _, p := range slices.Clone(l.paths) {
		if p.search.name == name {
			l.dropLocked(p.id, reason)
		}
	}
	if a := l.searches[name]; a != nil {
		l.releaseLocked(a)
	}
}

// dropLocked takes a path out of everything.
func (l *Link) dropLocked(id paths.ID, reason string) {
	p := l.findLocked(id)
	if p == nil {
		return
	}
	l.state.Remove(id)
	p.accepted.Store(false)
	l.out.CompareAndSwap(p, nil)
	l.paths = slices.DeleteFunc(l.paths, func(o *path) bool { return o == p })
	if p.relay != nil {
		p.relay.stop()
	}
	l.log.Debug("path dropped", "search", p.search.name, "path", p.name(), "reason", reason)
	l.publishLocked()
	p.search.paths--
	l.releaseLocked(p.search)
}

// releaseLocked forgets a search without paths.
func (l *Link) releaseLocked(a *search) {
	if a.paths > 0 || a.released {
		return
	}
	a.released = true
	if l.searches[a.name] == a {
		delete(l.searches, a.name)
	}
	changeTable(l.s, &l.s.keys, func(m map[uint64]*search) {
		if m[a.key] == a {
			delete(m, a.key)
		}
	})
}

// Close drops all paths, and waits for the relays and for whom Follow named.
func (l *Link) Close() {
	l.mu.Lock()
	if !l.closed {
		for len(l.paths) > 0 {
			l.dropLocked(l.paths[0].id, "link closed")
		}
		l.closed = true
		l.resends.stop()
		l.s.mu.Lock()
		delete(l.s.links, l)
		l.s.mu.Unlock()
		changeTable(l.s, &l.s.virtuals, func(m map[virtualKey]*Link) { delete(m, l.key) })
	}
	l.mu.Unlock()
	l.running.Wait()
}

func (l *Link) findLocked(id paths.ID) *path {
	for _, p := range l.paths {
		if p.id == id {
			return p
		}
	}
	return nil
}

// name is how the log and people know a path.
func (p *path) name() string {
	if p.kind == Relay {
		return string(Relay) + " " + p.remote.Load().String()
	}
	return p.remote.Load().String()
}
