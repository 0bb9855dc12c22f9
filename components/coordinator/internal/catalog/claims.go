package catalog

import (
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/rollout"
)

// claim is a Boot's report that it leads its group, at an epoch of the workload's own.
type claim struct {
	boot  string
	epoch uint64
}

// claims returns the claim of m, if m reports that it leads.
func (m Member) claims() (claim, bool) {
	if m.Report == nil || m.Report.Role != rollout.RoleLeader {
		return claim{}, false
	}
	return claim{m.Boot, m.Report.Epoch}, true
}

// leads reports whether m claims to lead and no other member claims it at a greater epoch. Epochs
// count only when both are known, as in rollouts.
func (m Member) leads() bool {
	mine, says := m.claims()
	return says && (mine.epoch == 0 || m.Rival <= mine.epoch)
}

// noteClaim stores or clears the claim of m. When the claim changed, the other claimants of the
// group become due: a replaced leader may not know of its successor, and its own next report would
// come seconds after the successor's report.
func (w *Writer) noteClaim(m Member) {
	now, says := m.claims()
	w.mu.Lock()
	before, said := w.claims[m.Group][m.Slot]
	w.setClaim(m.Group, m.Slot, now, says)
	var others []string
	if says != said || now != before {
		for slot := range w.claims[m.Group] {
			if slot != m.Slot {
				others = append(others, slot)
			}
		}
	}
	w.mu.Unlock()
	for _, slot := range others {
		w.dueIn(slot, 0)
	}
}

// setClaim stores the claim of a Slot, or clears it. The caller has mu.
func (w *Writer) setClaim(group, slot string, c claim, says bool) {
	switch of := w.claims[group]; {
	case says && of == nil:
		w.claims[group] = map[string]claim{slot: c}
	case says:
		of[slot] = c
	default:
		if delete(of, slot); len(of) == 0 {
			delete(w.claims, group)
		}
	}
}

// rival returns the greatest epoch at which another member of m's group claims to lead. rival
// counts a claim only when the report is live and its Boot holds its Slot. The result is 0 when no
// other member claims to lead, or no epoch is known. rival forgets a claim that is not live, so
// that a later report with the claim counts as a change.
func (w *Writer) rival(v *view.View, m Member) (epoch uint64) {
	now := w.cfg.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot, c := range w.claims[m.Group] {
		if slot == m.Slot {
			continue
		}
		got, heard := w.cfg.Reports.Of(slot)
		if !heard || got.BootID != c.boot || now.Sub(got.At) > reports.LiveWithin || !v.Boots[slot].LeasedBy(c.boot) {
			w.setClaim(m.Group, slot, claim{}, false)
			continue
		}
		epoch = max(epoch, c.epoch)
	}
	return epoch
}
