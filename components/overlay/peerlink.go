// A peerLink runs the Link to one Peer: events of its Sessions, dials and searches go to
// the machine of package link, and what that decides is done here and in finder.go.

package overlay

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/search"
)

// live is a Session and who is at its other end.
type live struct {
	carrier.Session
	who    identity.Verified
	number uint64
	dialer bool
	class  link.Class // when it was made
	path   pathNote
	begun  time.Time
	// expiry ends it with the Peer's certificate.
	expiry *expiry
	// retired is when it was found to be one too many.
	retired time.Time
}

// peerLink runs the Link to one Peer: it feeds what happens to link.State and
// does what that says. Its lock is taken after the Node's, never before.
type peerLink struct {
	node    *Node
	id      ID
	name    string // of id
	log     *slog.Logger
	forward *forward.Peer

	mu       sync.Mutex
	peer     Peer
	state    link.State
	since    time.Time
	sessions map[uint64]live // every Session not over yet
	control  control
	lastErr  error
	abandon  context.CancelFunc // ends the running dial; nil when there is none
	timer    *time.Timer
	idle     *time.Timer    // for the next look at a Link on demand; nil while it rests
	finder   *search.Finder // nil where the node finds no paths; constant
	epochs   uint64         // what those of this Link's searches begin after; constant
	class    link.Class     // what the datagram path in use is worth
	history  history
	ended    carrier.Stats // what the Sessions that are over have moved
	benchEnd time.Time     // until when the Peer may begin a bench; zero when it may not
	stopped  bool
	wg       sync.WaitGroup // goroutines of the link and its sessions
}

// facts are what the link machine wants to know of a map entry. The Node's lock is held.
func (n *Node) facts(p Peer) link.Facts {
	f := link.Facts{Dials: n.dials(p), Boot: p.BootID, AnyBoot: p.Coordinator, Finds: n.paths != nil, OnDemand: n.onDemand(p, n.small), Calls: n.onDemand(p, false)}
	if n.allows(link.Gateway) && n.cfg.Gateway.Domain != "" {
		f.Instance = p.InstanceID
	}
	return f
}

// startLink begins the Link to p, with the Node's lock held.
func (n *Node) startLink(p Peer) *peerLink {
	log := n.log.With("peer", p.ID.Slot)
	l := &peerLink{node: n, id: p.ID, name: p.ID.String(), log: log, peer: p, sessions: make(map[uint64]live), since: time.Now()}
	l.forward = forward.NewPeer(forward.Config{SelfVIP: n.cfg.SelfVIP, Log: log, Listener: n.cfg.Listener, Unused: l.unused, Wanted: l.wanted}, l.rules(p))
	l.openPaths()
	l.step(link.Changed{Facts: l.facts(p)})
	return l
}

// update brings a new map entry.
func (l *peerLink) update(p Peer) {
	l.mu.Lock()
	if old := l.peer.BootID; old != "" && old != p.BootID {
		l.forgetPathsLocked()
	}
	l.peer = p
	// First nobody of the past, then the rules for who is there now.
	l.stepLocked(link.Changed{Facts: l.facts(p)})
	l.mu.Unlock()
	l.forward.Update(l.rules(p))
}

// stop ends the Link: at once for the network, and in the background for what
// has to be waited for.
func (l *peerLink) stop(reason error) {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return
	}
	l.stopped = true
	if _, epoch := l.state.Finding(); l.state.Facts().Dials { // else the Peer chose it
		for old := l.node.epoch.Load(); old < epoch && !l.node.epoch.CompareAndSwap(old, epoch); old = l.node.epoch.Load() {
		}
	}
	l.doLocked(link.Cancel{})
	l.doLocked(link.StopFind{})
	l.watchIdleLocked()
	for _, s := range l.sessions {
		l.wg.Go(func() { s.Close(reason) })
	}
	l.mu.Unlock()
	l.closePaths()
	l.forward.Stop()
	l.node.wg.Go(func() {
		l.forward.Wait()
		l.wg.Wait()
	})
}

// step feeds one event to the machine and carries out what it says.
func (l *peerLink) step(ev link.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stepLocked(ev)
}

func (l *peerLink) stepLocked(ev link.Event) {
	if l.stopped {
		return
	}
	before := l.state.Phase()
	var effects []link.Effect
	l.state, effects = l.state.Step(ev)
	for _, e := range effects {
		l.doLocked(e)
	}
	if l.state.Phase() != before {
		l.since = time.Now()
	}
	l.watchIdleLocked()
}

// wanted tells the machine that something waits for a Session.
func (l *peerLink) wanted() { l.step(link.Wanted{}) }

// rules are what forwarding has to know of a map entry.
func (l *peerLink) rules(p Peer) forward.Rules {
	r := forwardRules(p)
	if f := l.node.facts(p); f.OnDemand && (f.Boot != "" || f.AnyBoot) {
		r.Hold = l.node.limits.demandTime
	}
	return r
}

func (l *peerLink) doLocked(e link.Effect) {
	switch e := e.(type) {
	case link.Cancel:
		if l.abandon != nil {
			l.abandon()
			l.abandon = nil
		}
		if l.timer != nil {
			l.timer.Stop()
			l.timer = nil
		}
	case link.Dial:
		l.abandon = l.node.launch(&l.wg, func(ctx context.Context) { l.dial(ctx, e) })
	case link.Arm:
		l.timer = time.AfterFunc(e.After, func() { l.step(link.Timer{Try: e.Try}) })
	case link.Use:
		l.useLocked(e.Session)
	case link.Close:
		s := l.sessions[e.Session]
		l.lastErr = e.Reason
		l.wg.Go(func() { s.Close(e.Reason) })
	case link.Retire:
		s := l.sessions[e.Session]
		s.retired = time.Now()
		l.sessions[e.Session] = s
		l.node.launch(&l.wg, func(ctx context.Context) {
			select {
			case <-time.After(retireGrace):
				l.unused(s.Session)
			case <-s.Done():
			case <-ctx.Done():
			}
		})
	case link.Rest:
		s := l.sessions[e.Session]
		l.node.launch(&l.wg, func(context.Context) { l.propose(s, e.Question) })
	case link.Yield:
		s := l.sessions[e.Session]
		l.node.launch(&l.wg, func(ctx context.Context) { l.yield(ctx, s) })
	case link.Forget:
		l.forgetPathsLocked()
	default:
		l.doFindLocked(e)
	}
}

// useLocked opens new streams on a Session from now on; control connections move
// there too, and their old ones end when the new ones are up.
func (l *peerLink) useLocked(number uint64) {
	s, ok := l.sessions[number]
	if !ok {
		l.forward.Use(nil)
		switch {
		case l.state.Asking(): // the Peer may refuse
		case !l.state.Awake():
			l.noteLocked(PathNone, reasonIdle, "")
		default:
			l.noteLocked(PathNone, reasonFor(link.NoClass, l.history.kind()), "")
		}
		return
	}
	l.lastErr = nil
	l.forward.Use(s.Session)
	l.abandonLocked()
	l.noteUseLocked(s)
	if s.dialer && l.node.controls(l.peer) {
		peer := l.peer
		l.node.launch(&l.wg, func(ctx context.Context) { l.openControl(ctx, s, peer) })
	}
}

// abandonLocked resets what the far side has not answered yet on Sessions under
// suspicion, when another is in use: apps make it anew there at once, and would wait for
// the dead-man timer else.
func (l *peerLink) abandonLocked() {
	used, _ := l.state.InUse()
	for number, s := range l.sessions {
		if number != used && used != 0 && l.state.Suspect(number) {
			l.forward.Abandon(s.Session)
		}
	}
}

// unused ends a Session that is retired and carries nothing any more.
func (l *peerLink) unused(session carrier.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sessions {
		if s.Session == session && l.state.Retired(s.number) && time.Since(s.retired) >= retireGrace && l.forward.Carries(session) == 0 && l.control.pairs[s.number] == 0 {
			l.wg.Go(func() { s.Close(errRetired) })
		}
	}
}

// retireGrace is how long a retired Session stays at least: a connection may be on
// its way over it that neither side counts yet.
const retireGrace = 6 * time.Second

var (
	errStopped = errors.New("link stopped")
	errRetired = errors.New("a better session carries the link")
)

// dial goes through the gateway once.
func (l *peerLink) dial(ctx context.Context, d link.Dial) {
	s, err := l.node.dial(ctx, l.id, d.Instance, d.Boot)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if ctx.Err() == nil {
			if l.lastErr == nil || l.lastErr.Error() != err.Error() {
				l.log.Info("session not made", "error", err)
			}
			l.lastErr = err
		}
		l.stepLocked(link.Failed{Try: d.Try, Jitter: jitter()})
		return
	}
	l.adopt(s, d.Try)
}

// adopt is connected for a Session that this side made: it ends when the Link has.
func (l *peerLink) adopt(s live, try uint64) bool {
	if l.connected(s, try) {
		return true
	}
	s.Close(errStopped)
	s.Wait()
	return false
}

// jitter spreads the tries of many links; nothing rests on its being secret.
func jitter() float64 {
	return rand.Float64() //nolint:gosec // spreads load, is no secret
}

// connected takes charge of a Session; false when the Link is over.
func (l *peerLink) connected(s live, try uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	s.begun = time.Now()
	s.expiry = &expiry{end: func() { s.Close(errExpired) }}
	if s.path.carrier == carrierQUIC && l.class != link.NoClass {
		s.class = l.class // it may have moved since
	}
	for _, other := range l.sessions {
		if other.who.BootID != s.who.BootID && l.state.Facts().Admits(s.who.BootID) {
			l.forgetPathsLocked()
			break
		}
	}
	l.sessions[s.number] = s
	l.stepLocked(link.Connected{Session: s.number, Boot: s.who.BootID, Class: s.class, Stray: s.dialer != l.state.Facts().Dials, Try: try})
	// The far side may use what we keep as a standby, so every Session that is kept is
	// served; one that was refused just now is not.
	if l.state.Class(s.number) == link.NoClass {
		l.wg.Go(func() {
			<-s.Done()
			l.over(s)
			s.Wait()
		})
		return true
	}
	peer := l.peer
	l.node.launch(&l.wg, func(ctx context.Context) { l.serve(ctx, s, peer) })
	if s.path.carrier == carrierTLS { // the shared socket watches the paths of datagrams
		l.node.launch(&l.wg, func(ctx context.Context) { l.watch(ctx, s) })
	}
	return true
}

// over takes note that a Session has ended.
func (l *peerLink) over(s live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, s.number)
	l.ended = sumStats(l.ended, s.Stats())
	used, _ := l.state.InUse()
	if used == s.number && !l.stopped {
		l.lastErr = s.Err()
		l.log.Info("session ended", "boot", s.who.BootID, "path", s.class.String(), "error", s.Err())
	}
	l.stepLocked(link.Lost{Session: s.number, Lived: time.Since(s.begun), Jitter: jitter()})
	if now, _ := l.state.InUse(); now != 0 && used == s.number && !l.stopped {
		next := l.sessions[now]
		l.node.launch(&l.wg, func(ctx context.Context) { l.prove(ctx, next) })
	}
}
