// Package peermap is the protocol of coordinators and agents for peer maps: how a change
// of a map is sent, and which map an agent has after it.
//
//	coordinator: New ──► Map ── Answer(before, self) ──► GetPeersResponse
//	agent:       Known ── Apply(GetPeersResponse) ──► Known
//
// An agent keeps one map per coordinator and control session; the numbers of two
// coordinators' maps, and of two sessions, are unrelated.
package peermap
