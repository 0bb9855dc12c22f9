package control

import controlv1 "cadre.dev/proto/cadre/control/v1"

// Agent returns the agent of a Slot over the newest of its control sessions on this coordinator;
// false if there is none.
func (s *Service) Agent(slot string) (controlv1.AgentServiceClient, bool) {
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
	return newest.agent, true
}
