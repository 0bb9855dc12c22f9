package overlay

import (
	"context"
	"time"

	"cadre.dev/overlay/internal/signal"
)

// outboxLen bounds what one attempt has to say.
const outboxLen = 32

// flushLimit is how long the last messages of an attempt may take.
const flushLimit = time.Second

// tell sends a message of this attempt, in order and without holding up the loop.
// One that no mailbox takes within sendLimit is lost, and with it most likely the
// attempt: another follows.
func (s *search) tell(m signal.Message) {
	m.Epoch, m.Attempt = s.find.Epoch, s.attempt
	select {
	case s.outbox <- m:
	default:
		s.l.log.Warn("message of an attempt dropped", "attempt", s.find.Epoch, "type", string(m.Type))
	}
}

// sendAll sends what tell queues until the outbox is closed.
func (s *search) sendAll(ctx context.Context) {
	for m := range s.outbox {
		if err := s.l.trySend(ctx, s.find.Boot, m); err != nil && ctx.Err() == nil {
			s.l.log.Debug("message not sent", "attempt", s.find.Epoch, "type", string(m.Type), "error", err)
		}
	}
}
