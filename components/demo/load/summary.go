package load

import (
	"slices"
	"sort"
	"time"
)

// Op is one attempted write.
type Op struct {
	ID    int64     `json:"id"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Server is the address that acknowledged it; empty when none did.
	Server string `json:"server,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Acknowledged reports whether the server confirmed the write.
func (o Op) Acknowledged() bool { return o.Error == "" }

// Summary sums up one span of time of a journal.
type Summary struct {
	From         time.Time `json:"from"`
	To           time.Time `json:"to"`
	Attempted    int       `json:"attempted"`
	Acknowledged int       `json:"acknowledged"`
	Failed       int       `json:"failed"`
	// Gap is the longest time between two acknowledged writes, of all writers
	// together; the span's ends count as acknowledged, so that a span that ends in
	// silence is not flattered.
	Gap time.Duration `json:"gap_ns"`
	// Slowest acknowledged write; half of them took at most P50, 99 of 100 at most P99.
	Slowest time.Duration `json:"slowest_ns"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	// Servers in the order in which they acknowledged; one more than the leadership moves.
	// Addresses, or Slots where the way there is a route and the servers say theirs.
	Servers []string       `json:"servers"`
	Errors  map[string]int `json:"errors,omitempty"`
	// Partial: the journal keeps only counts of the span's oldest writes. Gap, Slowest, P50, P99,
	// Servers and Errors cover the other writes.
	Partial bool `json:"partial,omitempty"`
}

// Summarize computes the figures of [from, to]. Ops need not be sorted.
func Summarize(ops []Op, from, to time.Time) Summary {
	s := Summary{From: from, To: to, Errors: map[string]int{}}
	acked := make([]Op, 0, len(ops))
	took := make([]time.Duration, 0, len(ops))
	for _, op := range ops {
		s.Attempted++
		if !op.Acknowledged() {
			s.Failed++
			s.Errors[op.Error]++
			continue
		}
		s.Acknowledged++
		took = append(took, op.End.Sub(op.Start))
		acked = append(acked, op)
	}
	sort.SliceStable(acked, func(a, b int) bool { return acked[a].End.Before(acked[b].End) })
	last := from
	for _, op := range acked {
		if !last.IsZero() {
			s.Gap = max(s.Gap, op.End.Sub(last))
		}
		last = op.End
	}
	if !to.IsZero() && !last.IsZero() {
		s.Gap = max(s.Gap, to.Sub(last))
	}
	slices.Sort(took)
	s.P50, s.P99, s.Slowest = share(took, 50), share(took, 99), share(took, 100)
	s.Servers = serverSequence(acked)
	return s
}

// share is the least of the sorted that at least percent of them do not exceed; 0 of none.
func share(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// serverSequence lists the acknowledging servers in order of their first write
// of each reign. Writers race: a write that the old leader confirmed may be
// recorded a moment after the new leader's first one, so Ops are taken in order
// of their start, which no two reigns can share.
func serverSequence(acked []Op) []string {
	byStart := append([]Op(nil), acked...)
	sort.SliceStable(byStart, func(a, b int) bool { return byStart[a].Start.Before(byStart[b].Start) })
	var sequence []string
	for _, op := range byStart {
		if op.Server == "" || len(sequence) > 0 && sequence[len(sequence)-1] == op.Server {
			continue
		}
		sequence = append(sequence, op.Server)
	}
	return sequence
}
