package signal

import (
	"fmt"
	"sync"
	"time"
)

const (
	// window is how far behind the highest sequence number of a Boot a message
	// may arrive, in messages.
	window = 1024
	// maxSenders bounds the Boots that are remembered at once. Only members of
	// the cluster get this far.
	maxSenders = 4096
	// memory is how long a Boot is remembered after its last message: until
	// none of its envelopes can pass Open any more.
	memory = Life + 2*Skew
)

// Guard refuses messages that a mailbox repeats, and messages that are older than earlier
// ones. Each sequence number of a Boot is accepted once, and the epoch of a Boot never
// goes back, so that an old search's offer cannot restart a Link (OVL-03). A nudge
// belongs to no search: its epoch is ignored.
//
// Two Boots of one Slot are two senders: which of them is admitted is the peer
// map's to say. The zero Guard is ready; it is safe for concurrent use.
type Guard struct {
	mu      sync.Mutex
	senders map[string]*sender
}

type sender struct {
	highest uint64
	epoch   uint64
	heard   time.Time
	seen    [window / 64]uint64
}

// Admit takes a message that [Open] proved, at most once. Errors are [ErrStale].
func (g *Guard) Admit(o Opened, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.senders[o.From.BootID]
	if s == nil {
		g.forgetLocked(now)
		if len(g.senders) >= maxSenders {
			return fmt.Errorf("%w: %d Boots have sent lately, no more are remembered", ErrStale, maxSenders)
		}
		if g.senders == nil {
			g.senders = map[string]*sender{}
		}
		s = &sender{}
		g.senders[o.From.BootID] = s
	}
	epoch := o.Message.Epoch
	if o.Message.Type == Nudge {
		epoch = s.epoch
	}
	if epoch < s.epoch {
		return fmt.Errorf("%w: epoch %d, %d was seen", ErrStale, epoch, s.epoch)
	}
	if !s.take(o.Seq) {
		return fmt.Errorf("%w: message %d came before", ErrStale, o.Seq)
	}
	s.epoch, s.heard = epoch, now
	return nil
}

// take marks seq and reports whether it was new.
func (s *sender) take(seq uint64) bool {
	switch {
	case seq > s.highest:
		for n := s.highest + 1; n <= seq && n-s.highest <= window; n++ {
			s.seen[n%window/64] &^= 1 << (n % 64)
		}
		s.highest = seq
	case s.highest-seq >= window:
		return false
	}
	word, bit := &s.seen[seq%window/64], uint64(1)<<(seq%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

func (g *Guard) forgetLocked(now time.Time) {
	if len(g.senders) < maxSenders {
		return
	}
	for boot, s := range g.senders {
		if now.Sub(s.heard) > memory {
			delete(g.senders, boot)
		}
	}
}
