// This file watches the Sessions on byte streams. The socket (package underlay) watches
// the datagram paths and reports to paths.go.

package peer

import (
	"context"
	"errors"
	"time"

	"cadre.dev/overlay/internal/link"
)

const (
	// watchEvery is how often a byte stream is looked at.
	watchEvery = 250 * time.Millisecond
	// answerWithin is how long a byte stream that has something to answer may be
	// silent before another Session is used. The carrier's own dead-man timer is
	// slower: it ends the Session, and with it every connection on it.
	answerWithin = 600 * time.Millisecond
	// giveUpAfter is the time for which a direct stream stays suspected before it ends,
	// while another Session works: new connections serve its apps better.
	giveUpAfter = time.Second
	// proveWithin is the time for the first answer of the Session that takes over from an
	// ended one. If three of its round trips are longer, they are the limit.
	proveWithin = 150 * time.Millisecond
)

// errSilent ends a direct stream that another Session has taken over from.
var errSilent = errors.New("direct path silent, another session works")

// watch reports a silent byte stream with overdue answers to the machine, so that a
// standby takes over within about a second. A Session without a standby is not watched: no
// remedy exists, and a coordinator has thousands of such Sessions.
func (p *Peer) watch(ctx context.Context, s *live) {
	tick := time.NewTimer(untilLook(time.Now()))
	defer tick.Stop()
	last := s.Stats()
	crowded, turned := p.crowded()
	for {
		var look <-chan time.Time
		if crowded {
			look = tick.C
		}
		select {
		case <-look:
			tick.Reset(untilLook(time.Now()))
		case <-turned:
			crowded, turned = p.crowded()
			last = s.Stats()
			tick.Reset(untilLook(time.Now()))
			continue
		case <-s.Done():
			return
		case <-ctx.Done():
			return
		}
		now := s.Stats()
		quiet := now.BytesIn == last.BytesIn && now.BytesOut != last.BytesOut
		last = now
		if !quiet || !p.hasStandby(s) {
			continue
		}
		if !answers(ctx, s, answerWithin) {
			p.suspect(ctx, s, "session is silent")
			last = s.Stats()
		}
	}
}

// crowd is whether a Link has more than one Session.
type crowd struct {
	many   bool
	turned chan struct{} // closed and replaced when many changes
}

// count takes note of how many Sessions there are.
func (c *core) count() {
	if many := len(c.sessions) > 1; many != c.crowd.many {
		close(c.crowd.turned)
		c.crowd = crowd{many: many, turned: make(chan struct{})}
	}
}

// crowded reports whether the Link has more than one Session; the channel closes when that
// changes.
func (p *Peer) crowded() (many bool, turned <-chan struct{}) {
	p.loop.ask(func(c *core) { many, turned = c.crowd.many, c.crowd.turned })
	return many, turned
}

// untilLook is the time to the next moment at which this machine checks all Sessions: an
// idle process wakes once for all of them.
func untilLook(now time.Time) time.Duration {
	return watchEvery - time.Duration(now.UnixNano())%watchEvery
}

// prove asks the Session that takes over from an ended one. The cause of that end, above
// all the death of the far side, has often ended this Session too, and its own timers
// notice that seconds later.
func (p *Peer) prove(ctx context.Context, s *live) {
	if !answers(ctx, s, max(proveWithin, 3*s.Stats().RTT)) && s.Err() == nil {
		p.suspect(ctx, s, "standby is silent")
	}
}

// answers asks the far side of a Session; any data over the Session counts as an answer.
func answers(ctx context.Context, s *live, within time.Duration) bool {
	before := s.Stats().BytesIn
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := s.Ping(ctx)
	return err == nil || s.Stats().BytesIn != before
}

// suspect has another Session used until this one answers again, or ends it. A Session
// over UDP is not ended: it may get another path, and its connections survive that.
func (p *Peer) suspect(ctx context.Context, s *live, why string) {
	if !p.doubt(s) {
		return
	}
	p.log.Info("session under suspicion", "reason", why, "path", s.class.String(), "remote", s.Path.Remote)
	for begin := time.Now(); ctx.Err() == nil && s.Err() == nil; {
		if answers(ctx, s, answerWithin) {
			p.feed(link.Suspected{Session: s.Number, Suspect: false})
			return
		}
		if time.Since(begin) >= giveUpAfter && !s.Datagrams() && s.class.Direct() && p.hasStandby(s) {
			s.Close(errSilent)
			return
		}
	}
}

// doubt puts a Session under suspicion; false when it is already.
func (p *Peer) doubt(s *live) (doubted bool) {
	p.loop.ask(func(c *core) {
		if doubted = !c.state.Suspect(s.Number); doubted {
			c.step(link.Suspected{Session: s.Number, Suspect: true})
			c.abandonDoubtful() // another one may be in use already
		}
	})
	return doubted
}

// hasStandby reports whether another Session could take over.
func (p *Peer) hasStandby(s *live) (has bool) {
	p.loop.ask(func(c *core) {
		others := len(c.sessions)
		if c.sessions[s.Number] != nil {
			others--
		}
		has = others > 0
	})
	return has
}
