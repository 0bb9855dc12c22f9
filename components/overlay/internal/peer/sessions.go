package peer

import (
	"context"
	"errors"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/peermap"
	"cadre.dev/overlay/internal/session"
)

var (
	// ErrStopped ends the Sessions of a Link when its node stops.
	ErrStopped = errors.New("link stopped")
	errRetired = errors.New("a better session carries the link")
)

// retireGrace is how long a retired Session stays at least: a connection may be on
// its way over it that neither side counts yet.
const retireGrace = 6 * time.Second

// live is a Session that is not over. Its fields are constant except retired and yielded,
// which belong to the loop.
type live struct {
	*session.Session
	class link.Class // when the Link took it
	begun time.Time
	// retired is when it was found to be one too many.
	retired time.Time
	// yielded: this side has promised to use it no more.
	yielded bool
}

// dial goes through the gateway once.
func (p *Peer) dial(ctx context.Context, d link.Dial) {
	s, err := p.node.Maker.Dial(ctx, session.Target{ID: p.id, Boot: d.Boot}, d.Instance)
	if err == nil {
		p.adopt(s, d.Try)
		return
	}
	p.loop.ask(func(c *core) {
		if ctx.Err() == nil {
			if c.lastErr == nil || c.lastErr.Error() != err.Error() {
				p.log.Info("session not made", "error", err)
			}
			c.lastErr = err
		}
		c.step(link.Failed{Try: d.Try, Refused: errors.Is(err, peermap.ErrNotAdmitted), Jitter: jitter()})
	})
}

// adopt is connected for a Session that this side made: it ends when the Link has.
func (p *Peer) adopt(s *session.Session, try uint64) bool {
	if p.connected(s, try) {
		return true
	}
	s.Close(ErrStopped)
	s.Wait()
	return false
}

// connected takes charge of a Session; false when the Link is over.
func (p *Peer) connected(s *session.Session, try uint64) (taken bool) {
	p.loop.ask(func(c *core) {
		if taken = !c.over(); taken {
			c.take(&live{Session: s, class: s.Class, begun: time.Now()}, try)
		}
	})
	return taken
}

func (c *core) take(s *live, try uint64) {
	if s.Datagrams() && c.class != link.NoClass {
		s.class = c.class // it may have moved since
	}
	for _, other := range c.sessions {
		if other.Who.BootID != s.Who.BootID && c.state.Facts().Admits(s.Who.BootID) {
			c.forgetPaths()
			break
		}
	}
	c.sessions[s.Number] = s
	c.count()
	c.step(link.Connected{Session: s.Number, Boot: s.Who.BootID, Class: s.class, Stray: s.Dialer != c.state.Facts().Dials, Try: try})
	// The far side may use our standby, so every Session that is kept is served. A
	// Session that was refused just now is closed instead.
	if c.state.Class(s.Number) == link.NoClass {
		c.wg.Go(func() {
			<-s.Done()
			c.lost(s)
			s.Wait()
		})
		return
	}
	entry := c.entry
	c.launch(func(ctx context.Context) { c.serve(ctx, s, entry) })
	if c.node.Maker.Outdated(s.Session) {
		c.show(s)
	}
	if !s.Datagrams() { // the shared socket watches the paths of datagrams
		c.launch(func(ctx context.Context) { c.watch(ctx, s) })
	}
}

// lost takes note that a Session has ended.
func (p *Peer) lost(s *live) { p.loop.ask(func(c *core) { c.drop(s) }) }

func (c *core) drop(s *live) {
	delete(c.sessions, s.Number)
	c.count()
	c.ended = sumStats(c.ended, s.Stats())
	used, _ := c.state.InUse()
	if used == s.Number {
		c.lastErr = s.Err()
		c.log.Info("session ended", "boot", s.Who.BootID, "path", s.class.String(), "error", s.Err())
	}
	c.step(link.Lost{Session: s.Number, Lived: time.Since(s.begun), Jitter: jitter()})
	if now, _ := c.state.InUse(); now != 0 && used == s.Number {
		next := c.sessions[now]
		c.launch(func(ctx context.Context) { c.prove(ctx, next) })
	}
}

// use opens new streams on a Session from now on; control connections move
// there too, and their old ones end when the new ones are up.
func (c *core) use(number uint64) {
	s, ok := c.sessions[number]
	if !ok {
		c.forward.Use(nil)
		switch {
		case c.state.Asking(): // the Peer may refuse
		case !c.state.Awake():
			c.note(link.KindNone, reasonIdle, "")
		default:
			c.note(link.KindNone, reasonFor(link.NoClass, c.history.kind()), "")
		}
		return
	}
	c.lastErr = nil
	c.forward.Use(s.Session.Session)
	c.abandonDoubtful()
	_, class := c.state.InUse()
	c.note(class.Kind(), reasonFor(class, c.history.kind()), s.Path.Remote)
	if s.Dialer && c.node.controls(c.entry) {
		c.launch(func(ctx context.Context) { c.control.Open(ctx, s.Session) })
	}
}

// abandonDoubtful resets the unanswered streams of suspected Sessions when another
// Session is in use. Apps reconnect at once over that Session; otherwise they would wait
// for the dead-man timer.
func (c *core) abandonDoubtful() {
	used, _ := c.state.InUse()
	for number, s := range c.sessions {
		if number != used && used != 0 && c.state.Suspect(number) {
			c.forward.Abandon(s.Session.Session)
		}
	}
}

// retire ends a Session when nothing uses it.
func (c *core) retire(s *live) {
	s.retired = time.Now()
	c.launch(func(ctx context.Context) {
		select {
		case <-time.After(retireGrace):
			c.unused(s.Session.Session)
		case <-s.Done():
		case <-ctx.Done():
		}
	})
}

// unused ends a Session that is retired and carries nothing any more.
func (p *Peer) unused(on carrier.Session) {
	p.loop.post(func(c *core) {
		s := c.sessionOf(on)
		if s != nil && c.state.Retired(s.Number) && time.Since(s.retired) >= retireGrace && p.forward.Carries(on) == 0 && c.record.Running(s.Number) == 0 {
			p.wg.Go(func() { s.Close(errRetired) })
		}
	})
}

// closeAll ends those Sessions, whether the machine holds them or has let go of them.
func (c *core) closeAll(which func(*live) bool, reason error) {
	for _, s := range c.sessions {
		if which(s) {
			c.wg.Go(func() { s.Close(reason) })
		}
	}
}

// sessionOf returns the Session of a carrier, nil for a finished one.
func (c *core) sessionOf(on carrier.Session) *live {
	for _, s := range c.sessions {
		if s.Session.Session == on {
			return s
		}
	}
	return nil
}
