package control

import (
	"context"

	"cadre.dev/coordinator/internal/view"
)

// Follow wakes the agents whose desired state changed, each time this coordinator sees a change of
// their group's records, until ctx ends. The wake-up at the time of a write is not enough: it
// arrives before this coordinator's View has the change. The agent would fetch the state that it
// already has, and then wait for its next poll.
func (s *Service) Follow(ctx context.Context) error {
	follow(ctx, s.views, s.wakeChanged)
	return nil
}

// FollowSlots is Follow without sessions: it calls wake with each Slot whose desired state changed,
// until ctx ends.
func FollowSlots(ctx context.Context, views Views, wake func(slot string)) {
	notified := map[string]stamp{}
	follow(ctx, views, func(v *view.View, scope Scope) {
		for slot, record := range v.Slots {
			if !scope.has(record.Value.Group) {
				continue
			}
			if now := stampOf(v, slot); notified[slot] != now {
				notified[slot] = now
				wake(slot)
			}
		}
	})
}

// follow calls changed at each change of the records, with the changed groups, until ctx ends.
func follow(ctx context.Context, views Views, changed func(*view.View, Scope)) {
	records := views.Subscribe()
	defer records.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-records.C():
		}
		if v, which := records.Take(); v != nil {
			changed(v, ScopeOf(which.All, which.Groups))
		}
	}
}

// wakeChanged wakes each connected Slot of the groups of scope whose desired state differs from its
// last wake-up.
func (s *Service) wakeChanged(v *view.View, scope Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.ofLocked(scope) {
		if now := stampOf(v, one.slot); now.version != 0 && one.notified != now {
			one.notified = now
			one.nudge()
		}
	}
}
