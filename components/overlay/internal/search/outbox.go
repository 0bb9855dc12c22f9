// The outbox sends the messages of a search through the Peer's mailbox, and joins
// messages that wait for each other. Nudges are in nudge.go.

package search

import (
	"context"
	"errors"
	"time"

	"cadre.dev/overlay/internal/signal"
)

const (
	// outboxLen bounds the queued messages of one search.
	outboxLen = 32
	// flushLimit is how long the last messages of a search may take.
	flushLimit = time.Second
	// sendLimit bounds one message to a mailbox.
	sendLimit = 5 * time.Second
	// sendAgainMin and sendAgainMax bound the pause before a message is sent again after
	// all mailboxes refused it. Each try costs one request of the rendezvous' quota.
	sendAgainMin = 250 * time.Millisecond
	sendAgainMax = 2 * time.Second
)

// errNotDelivered ends a search when no mailbox accepts its first message: the Peer asks for
// another search when it is there.
var errNotDelivered = errors.New("no mailbox of the peer accepted the first message")

// post queues a message of this search, in order and without delaying the loop.
func (s *search) post(m signal.Message) {
	m.Epoch, m.Search = s.find.Epoch, s.name
	select {
	case s.outbox <- m:
	default:
		s.f.log.Warn("message of a search dropped", "search", s.find.Epoch, "type", string(m.Type))
	}
}

// sendAll sends the queued messages until the outbox is closed.
func (s *search) sendAll(ctx context.Context) {
	for m := range s.outbox {
		queue := []signal.Message{m}
		for len(queue) > 0 {
			queue = takeReady(queue, s.outbox)
			m, queue = queue[0], queue[1:]
			err := s.f.trySend(ctx, s.find.Boot, m)
			if err == nil {
				if m.Type == signal.Offer {
					s.f.offerTaken(s.find.Epoch)
				}
				continue
			}
			if ctx.Err() == nil {
				s.f.log.Debug("message not sent", "search", s.find.Epoch, "type", string(m.Type), "error", err)
			}
			if m.Type == signal.Offer || m.Type == signal.Answer {
				s.giveUp(errNotDelivered)
			}
		}
	}
}

// takeReady takes the other waiting messages and joins them into as few messages as
// possible.
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
		return b, true // a search that ends needs no more addresses
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
func (f *Finder) trySend(ctx context.Context, boot string, m signal.Message) error {
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	for wait := sendAgainMin; ; wait = min(2*wait, sendAgainMax) {
		heard := f.heardFrom()
		err := f.field.awaitServer(ctx, sendLimit)
		if err == nil {
			err = f.field.Box.Send(ctx, f.peer, boot, m)
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
func (f *Finder) heardFrom() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.heard == nil {
		f.heard = make(chan struct{})
	}
	return f.heard
}
