package view

// RevisionsNamed returns the digests that specs, statuses, rollouts, Slots, policies, admissions
// and Operations of v name; "" may be among them. A Revision that is missing here is removed after
// a while.
func (v *View) RevisionsNamed() map[string]bool {
	out := map[string]bool{}
	for _, specs := range v.SpecsAsked() {
		for _, spec := range specs {
			out[spec.Revision()] = true
			for _, one := range spec.Instances {
				out[one.PinnedRevision] = true
			}
		}
	}
	for _, s := range v.Statuses {
		out[s.Value.Target], out[s.Value.Stable] = true, true
	}
	for _, r := range v.Rollouts {
		out[r.Value.From], out[r.Value.To] = true, true
	}
	for _, s := range v.Slots {
		out[s.Value.Assigned], out[s.Value.WasAvailableAt] = true, true
	}
	for _, p := range v.Policies {
		for _, a := range p.Value.Allowed {
			out[a.Revision] = true
		}
	}
	for _, a := range v.Admissions {
		out[a.Value.Revision] = true
	}
	for _, o := range v.Operations {
		out[o.Value.From], out[o.Value.To] = true, true
	}
	return out
}
