package control

import (
	"context"

	"cadre.dev/coordinator/internal/view"
)

// Follow wakes the agents whose desired state changed, each time this coordinator
// sees the records of their group change, until ctx ends. The wake-up that goes with a
// write is not enough: it arrives before the records are seen here, the agent fetches what
// it already has, and would then wait for its next poll.
func (s *Service) Follow(ctx context.Context) error {
	records := s.views.Subscribe()
	defer records.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-records.C():
		}
		if v, changed := records.Take(); v != nil {
			s.wakeChanged(v, ScopeOf(changed.All, changed.Groups))
		}
	}
}

// wakeChanged wakes each connected Slot of the groups of scope whose version is not the
// one it was last told of.
func (s *Service) wakeChanged(v *view.View, scope Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.ofLocked(scope) {
		record, ok := v.Slots[one.slot]
		if !ok {
			continue
		}
		if now := version(v, record.Value.Group, one.slot); one.told != now {
			one.told = now
			one.nudge()
		}
	}
}
