// Package peermap is what coordinators and agents agree on about peer maps: how a change
// of one is told, and what an agent has after it was told.
//
//	coordinator: New ──► Map ── Answer(before, self) ──► GetPeersResponse
//	agent:       Held ── Apply(GetPeersResponse) ──► Held
//
// An agent holds what each coordinator gave it on their control session; the numbers of
// two coordinators' maps, and of two sessions, have nothing to do with each other.
package peermap
