package control

import (
	"context"
	"time"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

const wakeTimeout = 5 * time.Second

// Wake tells the agent of a Slot to fetch its desired state. It does not wait;
// an agent that misses it polls.
func (s *Service) Wake(slot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.wakes[slot] {
		one.nudge()
	}
}

// WakeAll wakes every connected agent, after a change of the peer map.
func (s *Service) WakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sessions := range s.wakes {
		for one := range sessions {
			one.nudge()
		}
	}
}

func (one *session) nudge() {
	select {
	case one.wake <- struct{}{}:
	default:
	}
}

func (s *Service) add(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wakes[one.slot] == nil {
		s.wakes[one.slot] = map[*session]struct{}{}
	}
	s.wakes[one.slot][one] = struct{}{}
	s.count++
	one.number = s.count
	one.nudge()
}

func (s *Service) remove(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wakes[one.slot], one)
	if len(s.wakes[one.slot]) == 0 {
		delete(s.wakes, one.slot)
	}
}

// wakeLoop delivers wake-ups one at a time.
func (s *Service) wakeLoop(ctx context.Context, one *session) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-one.wake:
		}
		req := &controlv1.WakeRequest{PeersVersion: s.directory.Version()}
		if v, _ := s.views.Latest(); v != nil {
			req.Term = v.Term
			if record, ok := v.Slots[one.slot]; ok {
				req.DesiredVersion = version(v, record.Value.Group, one.slot)
			}
		}
		call, cancel := context.WithTimeout(ctx, wakeTimeout)
		_, err := one.agent.Wake(call, req)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.log.Debug("wake-up not delivered", "slot", one.slot, "error", err)
		}
	}
}
