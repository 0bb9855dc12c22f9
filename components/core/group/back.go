package group

import "fmt"

// Back returns the spec with the template, agent spec and restart token of an earlier Revision.
// Size, budgets, routes and all other fields stay.
func (s Spec) Back(r RevisionRecord) (Spec, error) {
	out := s.With(r.AgentSpec)
	out.Template, out.RestartToken = r.Template, r.RestartToken
	if got := out.Revision(); got != r.Digest {
		return Spec{}, fmt.Errorf("revision %s cannot be made again from its record: it comes out as %s", r.Digest, got)
	}
	return out, nil
}
