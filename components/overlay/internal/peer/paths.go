// This file joins a Link and the finder of its paths (package search). The Link is the
// finder's owner, makes Sessions of the found paths, and passes the machine's requests on.

package peer

import (
	"context"
	"net"
	"net/netip"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/punch"
	"cadre.dev/overlay/internal/search"
	"cadre.dev/overlay/internal/session"
	"cadre.dev/overlay/internal/signal"
	"cadre.dev/overlay/internal/underlay"
)

// VirtualAddr is the Peer's address on the shared socket; it is invalid without a socket.
func (p *Peer) VirtualAddr() netip.AddrPort {
	if p.finder == nil {
		return netip.AddrPort{}
	}
	return p.finder.Path().VirtualAddr().AddrPort()
}

// DatagramClass is the present class of a Session over UDP.
func (p *Peer) DatagramClass() link.Class {
	class := link.NoClass
	p.loop.ask(func(c *core) { class = c.class })
	if class == link.NoClass {
		return link.DirectUDP
	}
	return class
}

// find executes the effects that concern the search for paths.
func (c *core) find(e link.Effect) {
	if c.finder == nil {
		return // the machine knows that this node has no finder
	}
	switch e := e.(type) {
	case link.StopFind:
		c.finder.Stop()
	case link.ArmFind:
		c.finder.Arm(e.After, func() { c.feed(link.FindTimer{Number: e.Number}) })
	case link.Nudge:
		c.finder.Nudge(c.entry.BootID, c.node.controls(c.entry))
	case link.Redial:
		c.finder.Redial(e.Boot)
	case link.Find:
		c.finder.Want(e, c.node.controls(c.entry))
	}
}

// forgetPaths lets go of the paths to a Boot that is not the Peer's any more, once its
// Sessions have said farewell over them. Its machine may still run and answer
// probes: kept paths would lead the next Boot's packets to it (OVL-15).
func (c *core) forgetPaths() {
	if c.finder == nil {
		return
	}
	c.class = link.NoClass
	forget, sessions := c.finder.Forget(), c.all()
	c.wg.Go(func() {
		awaitFarewells(sessions)
		forget()
	})
}

// awaitFarewells waits for the end of the Sessions over UDP.
func awaitFarewells(sessions []*live) {
	for _, s := range sessions {
		if s.Datagrams() {
			s.Wait()
		}
	}
}

// pathEvent reports events of the datagram paths to the machine.
func (p *Peer) pathEvent(ev underlay.Event) {
	p.loop.post(func(c *core) { c.pathEvent(ev) })
}

func (c *core) pathEvent(ev underlay.Event) {
	if c.over() {
		return
	}
	switch ev.Kind {
	case underlay.PathUp, underlay.PathChanged:
		c.class = c.node.Field.Class(ev.Path)
		for _, s := range c.all() {
			if s.Datagrams() {
				// A suspected Session stays suspected until it answers: the path may lead to
				// the successor of the process that made the Session.
				c.step(link.Moved{Session: s.Number, Class: c.class})
			}
		}
		c.finder.Came()
		c.log.Debug("datagram path", "event", string(ev.Kind), "remote", ev.Path.Remote, "reason", ev.Reason)
	case underlay.PathQuiet, underlay.PathsGone:
		c.log.Info("datagram path is quiet", "event", string(ev.Kind), "remote", ev.Path.Remote, "reason", ev.Reason)
		if ev.Kind == underlay.PathsGone {
			// The Session waits for a path, with the connections on it; new ones need not.
			for _, s := range c.all() {
				if s.Datagrams() {
					c.launch(func(ctx context.Context) { c.suspect(ctx, s, "session has no path") })
				}
			}
		}
		c.step(link.Quiet{})
	}
}

// heard handles a message from the Peer's mailbox; a message of a search other than the
// running one is outdated.
func (c *core) heard(who identity.Verified, m signal.Message) {
	if c.finder == nil {
		return
	}
	c.finder.Hear()
	switch m.Type {
	case signal.Nudge:
		c.step(link.Nudged{Boot: who.BootID, Undelivered: c.finder.Undelivered()})
		return
	case signal.Offer:
		c.step(link.Offered{Epoch: m.Epoch, Boot: who.BootID})
	case signal.Answer, signal.Candidates, signal.Bye:
	}
	if running, epoch := c.state.Finding(); running && epoch == m.Epoch {
		c.finder.Take(m)
	}
}

// rendezvousUp reports to the machine that a rendezvous is reachable again, unless the running search
// waits for exactly that.
func (c *core) rendezvousUp() {
	if running, _ := c.state.Finding(); !running || !c.finder.Undelivered() {
		c.step(link.RendezvousUp{Jitter: jitter()})
	}
}

// owner is a Peer as its finder sees it.
type owner Peer

var _ search.Owner = (*owner)(nil)

func (o *owner) peer() *Peer { return (*Peer)(o) }

func (o *owner) Has(class link.Class) (has bool) {
	o.loop.ask(func(c *core) {
		for number := range c.sessions {
			has = has || c.state.Class(number) == class
		}
	})
	return has
}

func (o *owner) HasDatagrams() (has bool) {
	o.loop.ask(func(c *core) {
		for _, s := range c.sessions {
			has = has || s.Datagrams() && c.state.Class(s.Number) != link.NoClass
		}
	})
	return has
}

func (o *owner) Best() (best link.Class) {
	o.loop.ask(func(c *core) { _, best = c.state.InUse() })
	return best
}

func (o *owner) Waiting() bool { return o.forward.Waiting() > 0 }

func (o *owner) Launch(f func(context.Context)) context.CancelFunc {
	return o.node.Launch(&o.peer().wg, f)
}

func (o *owner) Ended(epoch uint64, lossOnly bool) {
	o.peer().feed(link.FindEnded{Epoch: epoch, Jitter: jitter(), LossOnly: lossOnly})
}

func (o *owner) DialDatagrams(ctx context.Context, boot string) error {
	p := o.peer()
	defer p.Making()()
	s, err := p.node.Datagrams.Dial(ctx, session.Target{ID: p.id, Boot: boot}, net.UDPAddrFromAddrPort(p.VirtualAddr()), p.DatagramClass)
	if err != nil {
		return err
	}
	p.adopt(s, 0)
	return nil
}

func (o *owner) DialDirect(ctx context.Context, conn *punch.Conn, boot string) error {
	p := o.peer()
	defer p.Making()()
	s, err := p.node.Maker.DialOver(ctx, conn, session.Target{ID: p.id, Boot: boot})
	if err != nil {
		return err
	}
	if !p.adopt(s, 0) {
		return ErrStopped
	}
	p.checkRTT(s, conn)
	return nil
}

func (o *owner) Welcome(ctx context.Context, conn *punch.Conn) error {
	p := o.peer()
	defer p.Making()()
	s, err := p.node.Maker.Welcome(ctx, conn)
	if err != nil {
		return err
	}
	p.checkRTT(s, conn)
	return nil
}

// checkRTT corrects the kernel's round-trip estimate after a crossed handshake.
func (p *Peer) checkRTT(s *session.Session, conn *punch.Conn) {
	p.node.Launch(&p.wg, func(ctx context.Context) {
		if punch.CheckRTT(conn, func() (time.Duration, error) { return s.Ping(ctx) }) {
			p.log.Debug("crossed handshake: the connection begins with another congestion control", "remote", conn.Remote())
		}
	})
}
