package peer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/measure"
	"cadre.dev/overlay/internal/session"
)

// View is a Link at one moment.
type View struct {
	State link.State
	// Since is when the state's phase began.
	Since time.Time
	// Sessions are the live Sessions, by number.
	Sessions []*session.Session
	// LastError is why the last try failed or the last Session ended, nil for neither.
	LastError error
	// Changes are the last changes of the path, oldest first, and Total is how many there
	// have been.
	Changes []Change
	Total   uint64
	// Ended is the traffic of the finished Sessions.
	Ended carrier.Stats
}

// View may be called at any time. Of a Link that has ended it is empty.
func (p *Peer) View() (v View) {
	p.loop.ask(func(c *core) {
		v = View{
			State: c.state, Since: c.since, LastError: c.lastErr, Changes: c.history.changes, Total: c.history.total, Ended: c.ended,
		}
		for _, s := range c.all() {
			v.Sessions = append(v.Sessions, s.Session)
		}
	})
	return v
}

// used gives the Session in use, nil for none.
func (v View) used() *session.Session {
	number, _ := v.State.InUse()
	at := slices.IndexFunc(v.Sessions, func(s *session.Session) bool { return s.Number == number })
	if at < 0 {
		return nil
	}
	return v.Sessions[at]
}

// Used gives the Session in use and how it travels.
func (p *Peer) Used() (*session.Session, link.Kind, error) {
	v := p.View()
	if s := v.used(); s != nil {
		_, class := v.State.InUse()
		return s, class.Kind(), nil
	}
	err := fmt.Errorf("%w: it is %s", measure.ErrNoSession, v.State.Phase())
	if v.LastError != nil {
		err = fmt.Errorf("%w: %s", err, v.LastError.Error())
	}
	return nil, link.KindNone, err
}

// Retain counts a connection on a Session until release is called, so that it stays.
func (p *Peer) Retain(s *session.Session) (release func()) {
	p.forward.Retain(s.Session)
	return func() { p.forward.Release(s.Session) }
}

// Moves is how often the Link's path has changed.
func (p *Peer) Moves() uint64 { return p.View().Total }

var _ measure.Link = (*Peer)(nil)

// Carries is how many connections there are on a Session, and Waiting how many wait for
// one.
func (p *Peer) Carries(s *session.Session) int { return p.forward.Carries(s.Session) }

// Waiting is how many connections wait for a Session.
func (p *Peer) Waiting() int { return p.forward.Waiting() }

// Wants reports whether a connection or a datagram waits for a Session.
func (p *Peer) Wants() bool { return p.forward.Wants() }

// Compare orders Peers by name.
func Compare(a, b *Peer) int { return strings.Compare(a.id.String(), b.id.String()) }
