package simulated

import "cadre.dev/coordinator/internal/catalog"

// Found reports whether discovery would lead to the Boot that holds slot, by what this coordinator
// has heard of it and by the records as it knows them, and why. known is false where it has not
// heard of that Boot.
func (c *Coordinator) Found(slot string) (found bool, why string, known bool) {
	v, _ := c.views.Latest()
	got, heard := c.reports.Of(slot)
	if v == nil || !heard {
		return false, "", false
	}
	entry, known := catalog.WantHeard(v, slot, got)
	return entry.Ready, entry.Why, known
}
