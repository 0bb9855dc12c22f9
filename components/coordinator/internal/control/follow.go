package control

import (
	"context"

	"cadre.dev/coordinator/internal/view"
)

// Follow wakes the agents whose desired state changed, each time this coordinator
// sees the records change, until ctx ends. The wake-up that goes with a write is
// not enough: it arrives before the records are seen here, the agent fetches what
// it already has, and would then wait for its next poll.
func (s *Service) Follow(ctx context.Context) error {
	told := map[string]uint64{}
	for {
		v, changed := s.views.Latest()
		if v != nil {
			s.wakeChanged(v, told)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// wakeChanged wakes each connected Slot whose version is not the one it was last
// told of.
func (s *Service) wakeChanged(v *view.View, told map[string]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for slot := range told {
		if len(s.wakes[slot]) == 0 {
			delete(told, slot)
		}
	}
	for slot, sessions := range s.wakes {
		record, ok := v.Slots[slot]
		if !ok {
			continue
		}
		now := version(v, record.Value.Group, slot)
		if told[slot] == now {
			continue
		}
		told[slot] = now
		for one := range sessions {
			one.nudge()
		}
	}
}
