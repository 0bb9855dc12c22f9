package peer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"cadre.dev/overlay/internal/control"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/peermap"
	"cadre.dev/overlay/internal/search"
	"cadre.dev/overlay/internal/session"
	"cadre.dev/overlay/internal/signal"
)

// Peer runs the Link to one Peer, from [New] to [Peer.Stop]. All methods may be called
// concurrently.
type Peer struct {
	// Constant after New.
	node    *Shared
	id      identity.ID
	log     *slog.Logger
	forward *forward.Peer
	finder  *search.Finder // nil where the node finds no paths
	control *control.Channel

	loop loop[*core]
	wg   sync.WaitGroup // goroutines of the Link and its Sessions
}

// New begins the Link to an entry of the peer map.
func New(shared *Shared, entry peermap.Peer, facts link.Facts) *Peer {
	p := &Peer{node: shared, id: entry.ID, log: shared.Log.With("peer", entry.ID.Slot)}
	now := time.Now()
	c := &core{Peer: p, entry: entry, sessions: map[uint64]*live{}, crowd: crowd{turned: make(chan struct{})}, since: now, epochs: shared.Epochs.base(now)}
	p.loop.value = c
	p.control = &control.Channel{Link: (*controlled)(p), Local: identity.Addr{ID: shared.Self.ID}, On: p.onControl}
	if shared.Field != nil {
		p.finder = search.New(search.Config{Field: shared.Field, Owner: (*owner)(p), Peer: p.id, Log: p.log})
		p.finder.Path().Follow(p.pathEvent)
	}
	p.forward = forward.NewPeer(forward.Config{
		SelfVIP: shared.SelfVIP, Log: p.log, Listener: shared.Listener, Unused: p.unused, Wanted: p.wanted,
	}, p.rules(entry, facts))
	p.loop.ask(func(c *core) { c.changed(facts) })
	return p
}

// ID names the Peer.
func (p *Peer) ID() identity.ID { return p.id }

// Finder returns the path finder of the Peer, nil where the node has none.
func (p *Peer) Finder() *search.Finder { return p.finder }

// rules are the parts of a map entry that forwarding needs.
func (p *Peer) rules(entry peermap.Peer, f link.Facts) forward.Rules {
	r := entry.Rules()
	if f.OnDemand && (f.Boot != "" || f.AnyBoot) {
		r.DemandTime = p.node.DemandTime
	}
	return r
}

// Update brings a new map entry. When it returns, a Session that the map does not admit any
// more can carry nothing new.
func (p *Peer) Update(entry peermap.Peer, facts link.Facts) {
	p.loop.ask(func(c *core) {
		if old := c.entry.BootID; old != "" && old != entry.BootID {
			c.forgetPaths()
		}
		c.entry = entry
		// Sessions of past Boots end first, and the rules for the present Boot follow.
		c.changed(facts)
		// Also who has promised to end a Session, and does not.
		c.closeAll(func(s *live) bool { return !facts.Admits(s.Who.BootID) }, link.ErrRevoked)
	})
	p.forward.Update(p.rules(entry, facts))
}

// Stop ends the Link. The network side ends at once. [Peer.Wait] waits for the rest in the
// background. Call it once.
func (p *Peer) Stop(reason error) {
	var left []*live
	p.loop.ask(func(c *core) {
		if _, epoch := c.state.Finding(); c.state.Facts().Dials { // else the Peer chose it
			p.node.Epochs.raise(epoch)
		}
		c.step(link.Ended{Reason: reason})
		// Close also the Sessions that the Peer was to end.
		c.closeAll(func(*live) bool { return true }, reason)
		left = c.all()
	})
	if p.finder != nil {
		// The Peer would wait for its dead-man timer else.
		release := p.finder.Close()
		p.wg.Go(func() {
			awaitFarewells(left)
			release()
		})
	}
	p.forward.Stop()
}

// Wait returns when a stopped Peer holds no goroutine any more.
func (p *Peer) Wait() {
	p.forward.Wait()
	p.wg.Wait()
	p.loop.close()
}

// Connected takes charge of a Session that the Peer made; false when the Link is over.
func (p *Peer) Connected(s *session.Session) bool { return p.connected(s, 0) }

// Heard handles a message from the Peer's mailbox; its sender is authenticated and
// admitted.
func (p *Peer) Heard(who identity.Verified, m signal.Message) {
	p.loop.post(func(c *core) { c.heard(who, m) })
}

// RendezvousUp reports that a rendezvous is reachable again after an outage of all.
func (p *Peer) RendezvousUp() { p.loop.post((*core).rendezvousUp) }

// ShowCertificate shows the node's newest certificate on every Session that lives.
func (p *Peer) ShowCertificate() {
	p.loop.post(func(c *core) {
		if c.over() {
			return
		}
		for _, s := range c.all() {
			c.show(s)
		}
	})
}

// show shows the Peer the node's newest certificate on a Session.
func (c *core) show(s *live) {
	c.launch(func(ctx context.Context) { c.node.Certificates.Show(ctx, s.Session, c.log) })
}

// AllowBench lets the Peer begin one bench within d.
func (p *Peer) AllowBench(d time.Duration) {
	p.loop.ask(func(c *core) { c.benchEnd = time.Now().Add(d) })
}

// wanted reports to the machine that a connection waits for a Session.
func (p *Peer) wanted() {
	p.loop.post(func(c *core) {
		if c.question != nil {
			c.question.hurryUp()
		}
		c.step(link.Wanted{})
	})
}

// feed has the machine take an event.
func (p *Peer) feed(ev link.Event) { p.loop.post(func(c *core) { c.step(ev) }) }
