package control

import (
	"context"
	"iter"
	"time"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

const wakeTimeout = 5 * time.Second

// Wake asks the agent of a Slot to fetch its desired state. Wake does not wait; an agent that
// misses the call polls.
func (s *Service) Wake(slot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.wakes[slot] {
		one.nudge()
	}
}

// WakeGroups wakes the connected agents of groups, after a change of their peer maps.
func (s *Service) WakeGroups(groups []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range groups {
		for one := range s.groups[name] {
			one.nudge()
		}
	}
}

// ofLocked returns the sessions of the groups of scope.
func (s *Service) ofLocked(scope Scope) iter.Seq[*session] {
	return func(yield func(*session) bool) {
		each := func(name string) bool {
			for one := range s.groups[name] {
				if !yield(one) {
					return false
				}
			}
			return true
		}
		if scope == nil {
			for name := range s.groups {
				if !each(name) {
					return
				}
			}
		}
		for name := range scope {
			if !each(name) {
				return
			}
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
	put(s.wakes, one.slot, one)
	put(s.groups, one.group, one)
	s.count++
	one.number = s.count
	one.nudge()
}

func (s *Service) remove(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	drop(s.wakes, one.slot, one)
	drop(s.groups, one.group, one)
}

func put(in map[string]map[*session]struct{}, name string, one *session) {
	if in[name] == nil {
		in[name] = map[*session]struct{}{}
	}
	in[name][one] = struct{}{}
}

func drop(in map[string]map[*session]struct{}, name string, one *session) {
	delete(in[name], one)
	if len(in[name]) == 0 {
		delete(in, name)
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
		req := &controlv1.WakeRequest{PeersVersion: s.directory.VersionOf(one.group)}
		if v, _ := s.views.Latest(); v != nil {
			req.Term, req.DesiredVersion = v.Term, Version(v, one.slot)
		}
		call, cancel := context.WithTimeout(ctx, wakeTimeout)
		_, err := one.agent.Wake(call, req)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.log.Debug("wake-up not delivered", "slot", one.slot, "error", err)
		}
	}
}
