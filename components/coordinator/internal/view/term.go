package view

// HighestTerm is the highest Term that any record was written under, also when the record
// of the Term is gone.
func (v *View) HighestTerm() uint64 {
	term := max(v.Term, v.leaderTerm)
	for _, s := range v.Statuses {
		term = max(term, s.Value.Term)
	}
	for _, o := range v.Operations {
		term = max(term, o.Value.Term)
	}
	for _, r := range v.Rollouts {
		term = max(term, r.Value.Term)
	}
	return term
}
