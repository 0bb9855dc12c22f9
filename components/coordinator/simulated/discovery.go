package simulated

import "cadre.dev/coordinator/internal/catalog"

// Found reports whether discovery would select the Boot that holds slot, with the reason, according
// to this coordinator's reports and records. known is false without a report of that Boot.
func (c *Coordinator) Found(slot string) (found bool, why string, known bool) {
	v, _ := c.views.Latest()
	got, heard := c.reports.Of(slot)
	if v == nil || !heard {
		return false, "", false
	}
	entry, known := catalog.WantHeard(v, slot, got)
	return entry.Ready, entry.Why, known
}
