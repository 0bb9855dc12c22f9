package plan

import (
	"maps"
	"slices"
)

// Shorter are plans with one thing less than p, the largest steps first: what fails in one of
// them as it does in p is easier to understand.
func Shorter(p Plan) []Plan {
	var out []Plan
	with := func(change func(*Plan)) {
		less := p
		less.Faults, less.Moves = slices.Clone(p.Faults), slices.Clone(p.Moves)
		change(&less)
		out = append(out, less)
	}
	if len(p.Faults) > 1 {
		with(func(q *Plan) { q.Faults = nil })
	}
	if p.Odds != (Odds{}) {
		with(func(q *Plan) { q.Odds = Odds{} })
	}
	for i := range p.Faults {
		with(func(q *Plan) { q.Faults = slices.Delete(q.Faults, i, i+1) })
	}
	for i := 1; i < len(p.Moves); i++ {
		with(func(q *Plan) { q.Moves = slices.Delete(q.Moves, i, i+1) })
	}
	for _, name := range slices.Sorted(maps.Keys(p.Odds.named())) {
		if *p.Odds.named()[name] != 0 {
			with(func(q *Plan) { *q.Odds.named()[name] = 0 })
		}
	}
	if p.Healing != Unhealed {
		with(func(q *Plan) { q.Healing = Unhealed })
	}
	if p.Coordinators > 1 {
		with(func(q *Plan) {
			q.Coordinators = 1
			q.Faults = slices.DeleteFunc(q.Faults, func(f Fault) bool { return f.Target > 0 && !f.ofMember() })
		})
	}
	return out
}

// ofMember reports whether Target is the ordinal of a member.
func (f Fault) ofMember() bool {
	return slices.Contains([]FaultKind{Mute, Sicken, Reboot, Halt, Lose}, f.Kind)
}
