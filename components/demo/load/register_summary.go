package load

import (
	"cmp"
	"slices"
	"time"
)

// RegisterSummary sums up one span of time of a run with registers.
type RegisterSummary struct {
	// Summary counts writes: puts, and swaps that were not refused. An unknown
	// outcome counts as failed. Servers stays empty: every member takes writes.
	Summary
	Reads int `json:"reads"`
	// Refused swaps: answered, without effect.
	Refused int `json:"refused"`
	// Unknown outcomes of writes.
	Unknown int `json:"unknown"`
	// Reigns that began in the span, and the one before, by Term. Their number is the leadership
	// moves plus one.
	Reigns []Reign `json:"reigns"`
}

// Summarize computes the figures of [from, to] by the wall clock; began is the
// run's begin. A zero time is open.
func (h *History) Summarize(began, from, to time.Time) RegisterSummary {
	var s RegisterSummary
	var writes []Op
	for _, op := range h.Ops() {
		end := began.Add(time.Duration(op.Return))
		if !from.IsZero() && end.Before(from) || !to.IsZero() && end.After(to) {
			continue
		}
		switch {
		case op.Kind == RegisterRead:
			s.Reads++
			continue
		case op.Unknown:
			s.Unknown++
		case op.Kind == RegisterSwap && !op.Swapped:
			s.Refused++
			continue
		}
		writes = append(writes, Op{ID: op.ID, Start: began.Add(time.Duration(op.Call)), End: end, Error: op.Error})
	}
	s.Summary = Summarize(writes, from, to)
	s.Reigns = h.reignsIn(from, to)
	return s
}

func (h *History) reignsIn(from, to time.Time) []Reign {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Reign, 0, len(h.reigns))
	for _, r := range h.reigns {
		if to.IsZero() || !r.Since.After(to) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Reign) int { return cmp.Compare(a.Term, b.Term) })
	first := 0
	for i, r := range all {
		if !from.IsZero() && !r.Since.After(from) {
			first = i
		}
	}
	return all[first:]
}

// AcknowledgedIDs returns the IDs of all acknowledged writes.
func (h *History) AcknowledgedIDs() []int64 {
	var ids []int64
	for _, op := range h.Ops() {
		if op.wrote() {
			ids = append(ids, op.ID)
		}
	}
	return ids
}

// Missing returns how many of the acknowledged ids are not among present.
func Missing(acknowledged []int64, present map[int64]bool) int {
	missing := 0
	for _, id := range acknowledged {
		if !present[id] {
			missing++
		}
	}
	return missing
}
