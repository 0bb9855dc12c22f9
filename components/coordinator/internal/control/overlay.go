package control

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/overlaystatus"
)

// Overlay returns the agent of a Slot, for questions about its Links, over the newest of its
// control sessions on this coordinator; false if there is none.
func (s *Service) Overlay(slot string) (overlaystatus.Asked, bool) {
	return s.remote(slot)
}

// Metrics returns the figures of the agent of a Slot, in an unchecked text of bounded size.
func (s *Service) Metrics(ctx context.Context, slot string) ([]byte, error) {
	agent, ok := s.remote(slot)
	if !ok {
		return nil, status.Error(codes.FailedPrecondition, "AGENT_NOT_CONNECTED: the agent has no control session here")
	}
	return agent.GetMetrics(ctx)
}

// Connected returns the Slots that have a control session on this coordinator, sorted.
func (s *Service) Connected() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.wakes))
}

func (s *Service) remote(slot string) (overlaystatus.Remote, bool) {
	agent, ok := s.Agent(slot)
	if !ok {
		return overlaystatus.Remote{}, false
	}
	return overlaystatus.Remote{Slot: slot, Agent: agent}, true
}
