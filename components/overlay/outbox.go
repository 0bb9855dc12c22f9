// What is said to a Peer through its mailbox: the messages of a search, joined where they
// wait for each other, and the nudges that ask for one.

package overlay

import (
	"context"
	"errors"
	"time"

	"cadre.dev/overlay/internal/signal"
)

const (
	// outboxLen bounds what one search has to say.
	outboxLen = 32
	// flushLimit is how long the last messages of a search may take.
	flushLimit = time.Second
	// sendLimit bounds one message to a mailbox.
	sendLimit = 5 * time.Second
	// sendAgainMin and sendAgainMax bound the pause before a message is sent again that
	// no mailbox took. Each try costs a request of those that a rendezvous allows.
	sendAgainMin = 250 * time.Millisecond
	sendAgainMax = 2 * time.Second
)

// errUnheard ends a search whose first message no mailbox took: the Peer asks for
// another when it is there.
var errUnheard = errors.New("no mailbox of the peer's took the first message")

// tell sends a message of this search, in order and without holding up the loop.
func (s *search) tell(m signal.Message) {
	m.Epoch, m.Search = s.find.Epoch, s.name
	select {
	case s.outbox <- m:
	default:
		s.l.log.Warn("message of a search dropped", "search", s.find.Epoch, "type", string(m.Type))
	}
}

// sendAll sends what tell queues until the outbox is closed.
func (s *search) sendAll(ctx context.Context) {
	for m := range s.outbox {
		queue := []signal.Message{m}
		for len(queue) > 0 {
			queue = takeReady(queue, s.outbox)
			m, queue = queue[0], queue[1:]
			err := s.l.trySend(ctx, s.find.Boot, m)
			if err == nil {
				if m.Type == signal.Offer {
					s.l.offerTaken(s.find.Epoch)
				}
				continue
			}
			if ctx.Err() == nil {
				s.l.log.Debug("message not sent", "search", s.find.Epoch, "type", string(m.Type), "error", err)
			}
			if m.Type == signal.Offer || m.Type == signal.Answer {
				s.giveUp(errUnheard)
			}
		}
	}
}

// takeReady takes what else waits to be sent, as few messages.
func takeReady(queue []signal.Message, more <-chan signal.Message) []signal.Message {
	for {
		select {
		case m, ok := <-more:
			if !ok {
				return queue
			}
			last := len(queue) - 1
			if both, ok := join(queue[last], m); ok {
				queue[last] = both
			} else {
				queue = append(queue, m)
			}
		default:
			return queue
		}
	}
}

// join makes one message of two of a search that were to follow each other, where the
// Peer understands it the same.
func join(a, b signal.Message) (signal.Message, bool) {
	if b.Type == signal.Bye && a.Type == signal.Candidates {
		return b, true // who ends a search needs no more addresses
	}
	opens := a.Type == signal.Offer || a.Type == signal.Answer || a.Type == signal.Candidates
	if b.Type != signal.Candidates || !opens || len(a.Candidates)+len(b.Candidates) > signal.MaxCandidates {
		return a, false
	}
	a.Candidates = append(a.Candidates[:len(a.Candidates):len(a.Candidates)], b.Candidates...)
	if len(b.TCP) > 0 {
		a.TCP, a.OneWayMicros = b.TCP, b.OneWayMicros // always the whole list
	}
	a.Last = a.Last || b.Last
	return a, true
}

// trySend sends again until a mailbox takes the message or the time is up: the Peer or
// the rendezvous may come a moment later than we do.
func (l *peerLink) trySend(ctx context.Context, boot string, m signal.Message) error {
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	for wait := sendAgainMin; ; wait = min(2*wait, sendAgainMax) {
		heard := l.heardFrom()
		err := l.node.paths.awaitServer(ctx, sendLimit)
		if err == nil {
			err = l.node.paths.box.Send(ctx, l.id, boot, m)
		}
		if err == nil {
			return nil
		}
		again := time.NewTimer(wait/2 + time.Duration(jitter()*float64(wait)/2))
		select {
		case <-again.C:
		case <-heard: // it is at its mailbox now
			again.Stop()
		case <-ctx.Done():
			again.Stop()
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// heardFrom gives a channel that closes when the Peer's next message comes.
func (l *peerLink) heardFrom() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finder.heard == nil {
		l.finder.heard = make(chan struct{})
	}
	return l.finder.heard
}

// nudgeLocked asks the Peer, as boot, for a search, soon.
func (l *peerLink) nudgeLocked(boot string) {
	f := &l.finder
	f.nudgeDue, f.nudgeBoot = true, boot
	if !f.nudging {
		f.nudging = true
		l.node.launch(&l.wg, l.runNudges)
	}
}

// runNudges sends the nudges that are due, one at a time. The Peer may not be at its
// mailbox yet: it begins by itself when it is, so one that is lost costs little.
func (l *peerLink) runNudges(ctx context.Context) {
	for {
		l.mu.Lock()
		f := &l.finder
		due, boot := f.nudgeDue && ctx.Err() == nil, f.nudgeBoot
		f.nudgeDue, f.nudging = false, due
		urgent := l.urgency(l.node.controls(l.peer))
		within, cancel := context.WithCancel(ctx)
		f.nudged = cancel
		l.mu.Unlock()
		if due {
			l.sendNudge(within, boot, urgent)
		}
		cancel()
		if !due {
			return
		}
	}
}

func (l *peerLink) sendNudge(ctx context.Context, boot string, urgent func() bool) {
	if l.node.nudges.take(ctx, urgent) != nil {
		return
	}
	defer l.node.nudges.give()
	err := l.trySend(ctx, boot, signal.Message{Type: signal.Nudge})
	if err == nil {
		l.nudged(boot)
	} else if ctx.Err() == nil {
		l.log.Debug("nudge not sent", "error", err)
	}
}

// unnudgeLocked takes a nudge back that is due or on its way: the Peer, as boot, does
// what it asks for. Where many Links come up at once nudges wait for their turn, and one
// that comes late would have the Peer search again for what is found.
func (l *peerLink) unnudgeLocked(boot string) {
	f := &l.finder
	if f.nudgeBoot != "" && f.nudgeBoot != boot {
		return
	}
	f.nudgeDue = false
	if f.nudged != nil {
		f.nudged()
	}
}

// nudged notes that a nudge is at the Peer's mailbox: who asked for one meanwhile asked
// for this one.
func (l *peerLink) nudged(boot string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finder.nudgeBoot == boot {
		l.finder.nudgeDue = false
	}
}
