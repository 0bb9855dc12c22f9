package watermark

import (
	"context"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// absurd is how far above what most agents saw one agent may be believed: nothing grows
// so far between two reports, and one that lies must not use the numbers up.
const absurd = 1 << 32

// Standing is how far the records have come, and what was seen of them.
type Standing struct {
	// Term and State are what the records say. Records is the highest Term that any of
	// them was written under, also when the Term itself is gone.
	Term, State, Records uint64
	// Raised is what an operator wrote.
	Raised store.Recovery
	// SeenTerm and SeenState are the highest of this process.
	SeenTerm, SeenState uint64
	// Agents is what they say.
	Agents reports.Marks
	// Halted is why the records may not be gone on from; nil: they may.
	Halted error
}

// Standing looks.
func (r *Ratchet) Standing(ctx context.Context) (Standing, error) {
	s := Standing{Agents: r.agents.Marks()}
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
	s.Term, s.State, s.Records, s.Raised = v.Term, v.State, v.HighestTerm(), v.Recovery
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

func (s Standing) state() store.StateFacts {
	return store.StateFacts{Stored: s.State, Raised: s.Raised.State, Seen: max(s.SeenState, s.Agents.Most.State)}
}

// Above is the Term and the state that the next ones must be above, so that no agent takes
// them for old: the highest that anybody saw, an absurd claim aside.
func (s Standing) Above() (term, state uint64) {
	believed := func(most, anyone uint64) uint64 {
		if anyone-most > absurd {
			return most
		}
		return anyone
	}
	most, anyone := s.Agents.Most, s.Agents.Any
	return max(s.Term, s.Records, s.Raised.Term, s.SeenTerm, believed(most.Term, anyone.Term)),
		max(s.State, s.Raised.State, s.SeenState, believed(most.State, anyone.State))
}
