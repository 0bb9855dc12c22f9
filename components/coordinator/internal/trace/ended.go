package trace

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"cadre.dev/coordinator/internal/view"
)

// ended chooses the spans to send. It remembers the IDs of ended records while the records exist.
type ended struct{ known map[string]bool }

// take returns the spans of the records in v that ended since the last take, parents first and then
// by ID. The first take returns none: those records ended before this coordinator looked.
func (e *ended) take(v *view.View) []Span {
	now := map[string]bool{}
	var out []Span
	note := func(id string, spans ...Span) {
		now[id] = true
		if e.known != nil && !e.known[id] {
			out = append(out, spans...)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.Rollouts)) {
		if s, ok := OfRollout(v.Rollouts[id].Value); ok {
			note(id, s)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.Operations)) {
		if spans := OfOperation(v.Operations[id].Value); spans != nil {
			note(id, spans...)
		}
	}
	e.known = now
	slices.SortStableFunc(out, func(a, b Span) int { return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Name, b.Name)) })
	return out
}
