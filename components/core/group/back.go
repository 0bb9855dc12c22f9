package group

import "fmt"

// Back is the spec with what one of its Revisions is made of in place of its own: template,
// agent spec and restart token. All else stays: size, budgets, routes.
func (s Spec) Back(r RevisionRecord) (Spec, error) {
	out := s.With(r.AgentSpec)
	out.Template, out.RestartToken = r.Template, r.RestartToken
	if got := out.Revision(); got != r.Digest {
		return Spec{}, fmt.Errorf("revision %s cannot be made again from its record: it comes out as %s", r.Digest, got)
	}
	return out, nil
}
