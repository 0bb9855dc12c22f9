package catalog

import (
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/rollout"
)

// claim is a Boot's word that it leads its group, at an epoch of the workload's own.
type claim struct {
	boot  string
	epoch uint64
}

// claims reports whether m says that it leads.
func (m Member) claims() (claim, bool) {
	if m.Report == nil || m.Report.Role != rollout.RoleLeader {
		return claim{}, false
	}
	return claim{m.Boot, m.Report.Epoch}, true
}

// leads reports whether m says that it leads and no other does at a greater epoch. Epochs
// count where both are known, as they do for rollouts.
func (m Member) leads() bool {
	mine, says := m.claims()
	return says && (mine.epoch == 0 || m.Rival <= mine.epoch)
}

// noteClaim keeps whether m says that it leads. When that is news, the others of its group that
// say so are looked at again: a leader that was replaced may not hear of it, and its own next
// report would come seconds after its successor's.
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

// setClaim keeps a claim, or none. The caller has mu.
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

// rival is the greatest epoch at which another member of m's group says that it leads, by a
// report that is live of a Boot that has its Slot; 0: none does, or none is known. A claim that
// is not live is forgotten, so that it is news when it is heard again.
func (w *Writer) rival(v *view.View, m Member) (epoch uint64) {
	now := w.cfg.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot, c := range w.claims[m.Group] {
		if slot == m.Slot {
			continue
		}
		got, heard := w.cfg.Reports.Of(slot)
		if !heard || got.BootID != c.boot || now.Sub(got.At) > reports.LiveWithin || !v.Boots[slot].HeldBy(c.boot) {
			w.setClaim(m.Group, slot, claim{}, false)
			continue
		}
		epoch = max(epoch, c.epoch)
	}
	return epoch
}
