// Watching the Sessions on byte streams. Paths of datagrams are watched by the socket
// (package underlay), which tells finder.go.

package overlay

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
	// giveUpAfter is how long a direct stream stays under suspicion before it ends,
	// while another Session works: its connections are better made anew.
	giveUpAfter = time.Second
	// proveWithin is how long the Session that takes over from one that has ended may
	// take to answer, or three of its round trips where that is longer.
	proveWithin = 150 * time.Millisecond
)

// errSilent ends a direct stream that another Session has taken over from.
var errSilent = errors.New("direct path silent, another session works")

// watch tells the machine when a byte stream that should say something does not, so
// that a standby takes over within about a second.
func (l *peerLink) watch(ctx context.Context, s live) {
	tick := time.NewTimer(untilLook(time.Now()))
	defer tick.Stop()
	last := s.Stats()
	for {
		select {
		case <-tick.C:
			tick.Reset(untilLook(time.Now()))
		case <-s.Done():
			return
		case <-ctx.Done():
			return
		}
		now := s.Stats()
		quiet := now.BytesIn == last.BytesIn && now.BytesOut != last.BytesOut
		last = now
		if !quiet || !l.hasStandby(s.number) {
			continue
		}
		if !l.answers(ctx, s, answerWithin) {
			l.suspect(ctx, s, "session is silent")
			last = s.Stats()
		}
	}
}

// untilLook is how long it is to the next moment at which all Sessions of this machine are
// looked at: an idle process is woken for all of them at once, not for each by itself.
func untilLook(now time.Time) time.Duration {
	return watchEvery - time.Duration(now.UnixNano())%watchEvery
}

// prove asks the Session that takes over from one that has ended. What ended that one,
// the death of the far side above all, has often ended this one too, and its own timers
// notice that seconds later.
func (l *peerLink) prove(ctx context.Context, s live) {
	if !l.answers(ctx, s, max(proveWithin, 3*s.Stats().RTT)) && s.Err() == nil {
		l.suspect(ctx, s, "standby is silent")
	}
}

// answers asks the far side of a Session; whatever comes over it will do.
func (l *peerLink) answers(ctx context.Context, s live, within time.Duration) bool {
	before := s.Stats().BytesIn
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := s.Ping(ctx)
	return err == nil || s.Stats().BytesIn != before
}

// suspect has another Session used until this one answers again, or ends it. One over
// UDP is not ended: it may get another path, and its connections survive that.
func (l *peerLink) suspect(ctx context.Context, s live, why string) {
	if !l.doubt(s) {
		return
	}
	l.log.Info("session under suspicion", "reason", why, "path", s.class.String(), "remote", s.path.remote)
	for begin := time.Now(); ctx.Err() == nil && s.Err() == nil; {
		if l.answers(ctx, s, answerWithin) {
			l.step(link.Suspected{Session: s.number, Suspect: false})
			return
		}
		if time.Since(begin) >= giveUpAfter && s.path.carrier == carrierTLS && s.class.Direct() && l.hasStandby(s.number) {
			s.Close(errSilent)
			return
		}
	}
}

// doubt puts a Session under suspicion, unless it is already.
func (l *peerLink) doubt(s live) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Suspect(s.number) {
		return false
	}
	l.stepLocked(link.Suspected{Session: s.number, Suspect: true})
	l.abandonLocked() // another one may be in use already
	return true
}

// hasStandby tells whether another Session could take over.
func (l *peerLink) hasStandby(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sessions) > 1 || len(l.sessions) == 1 && l.sessions[number].Session == nil
}
