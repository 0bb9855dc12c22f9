package control

import "cadre.dev/overlaystatus"

// Overlay returns the agent of a Slot, for questions about its Links, over the newest of its
// control sessions on this coordinator; false if there is none.
func (s *Service) Overlay(slot string) (overlaystatus.Asked, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest *session
	for one := range s.wakes[slot] {
		if newest == nil || one.number > newest.number {
			newest = one
		}
	}
	if newest == nil {
		return nil, false
	}
	return overlaystatus.Remote{Slot: slot, Agent: newest.agent}, true
}
