package watermark

import (
	"context"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// absurd is the maximum distance of a single agent's watermark above most agents' to be believed.
// No watermark grows this far between two reports, and a lying agent must not use up the numbers.
const absurd = 1 << 32

// State has the watermarks of the records and of their observers.
type State struct {
	// Term and State are the recorded ones. Records is the highest Term that any record was written
	// under, also when the Term itself is gone.
	Term, State, Records uint64
	// Raised is the operator's record.
	Raised store.Recovery
	// Restored names the backup of the records; zero: they are not restored.
	Restored store.Restored
	// SeenTerm and SeenState are the highest that this process has seen.
	SeenTerm, SeenState uint64
	// Agents are the watermarks of the agents.
	Agents reports.HighWater
	// Halted is why work on the records may not continue; nil: it may.
	Halted error
}

// State reads the current watermarks.
func (r *Watermark) State(ctx context.Context) (State, error) {
	s := State{Agents: r.agents.HighWater()}
	r.mu.Lock()
	s.SeenTerm, s.SeenState = r.term, r.seen
	r.mu.Unlock()
	if seen, ok := r.store.(interface{ SeenTerm() uint64 }); ok {
		s.SeenTerm = max(s.SeenTerm, seen.SeenTerm())
	}
	v, err := view.Read(ctx, r.store)
	if err != nil {
		return s, err
	}
	s.Term, s.State, s.Records, s.Raised, s.Restored = v.Term, v.State, v.HighestTerm(), v.Recovery, v.Restored
	facts, _, err := store.ReadTermFacts(ctx, r.store)
	if err != nil {
		return s, err
	}
	facts.Seen = max(s.SeenTerm, s.Agents.Most.Term)
	if _, s.Halted = store.NextTerm(facts); s.Halted == nil {
		s.Halted = s.state().Regressed()
	}
	return s, nil
}

func (s State) state() store.StateFacts {
	return store.StateFacts{Stored: s.State, Raised: s.Raised.State, Seen: max(s.SeenState, s.Agents.Most.State), Restored: s.Restored.State}
}

// Above returns the Term and the state that the next ones must exceed, so that no agent rejects
// them as old. It is the highest watermark of all observers, except absurd claims.
func (s State) Above() (term, state uint64) {
	believed := func(most, anyone uint64) uint64 {
		if anyone-most > absurd {
			return most
		}
		return anyone
	}
	most, anyone := s.Agents.Most, s.Agents.Any
	return max(s.Term, s.Records, s.Raised.Term, s.Restored.Term, s.SeenTerm, believed(most.Term, anyone.Term)),
		max(s.State, s.Raised.State, s.Restored.State, s.SeenState, believed(most.State, anyone.State))
}
