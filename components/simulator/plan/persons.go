package plan

import (
	"math/rand/v2"
	"slices"
	"time"
)

// What a person does about a group, beside its moves.
const (
	// Delete has a group deleted with its CVMs and their disks, for good; what its moves ask for later is
	// nothing. Remake has it deleted, and made anew under its name For later, as its last move says.
	// Spare takes a deletion back after For, and where the group is gone by then makes it anew.
	Delete FaultKind = "delete"
	Remake FaultKind = "remake"
	Spare  FaultKind = "spare"
	// Retry has a person look for For whether the group's rollout failed, and let it go on once; Undo
	// has them go back to the Revision before at once.
	Retry FaultKind = "retry"
	Undo  FaultKind = "undo"
	// Resolve has a person say, within For, how each call ended that has no answer and of which they
	// can tell for certain, in all groups.
	Resolve FaultKind = "resolve"
)

// AgentCrashAt has the process of a member's agent die at one of the next points of its own work, in the same
// Boot; it starts again at once.
const AgentCrashAt FaultKind = "agent-crash-at"

// persons are what persons may do about a group.
var persons = []FaultKind{Delete, Remake, Spare, Retry, Undo, Resolve, AgentCrashAt}

// drawPersons has a group of every sixth seed deleted, mostly to be made anew; the rollout of one of every
// fourth retried where it fails, of one of every fourth undone; and calls of every fifth resolved.
func drawPersons(r *rand.Rand, p *Plan) {
	do := func(kind FaultKind, at, within time.Duration) {
		p.Faults = append(p.Faults, Fault{Kind: kind, At: at, For: within, Target: p.Groups[r.IntN(len(p.Groups))].Name})
	}
	if r.IntN(6) == 0 {
		kind := []FaultKind{Remake, Remake, Remake, Spare, Delete}[r.IntN(5)]
		do(kind, 90*time.Second+upTo(r, Horizon-2*time.Minute), upTo(r, []time.Duration{20 * time.Second, 2 * time.Minute}[r.IntN(2)]))
	}
	if r.IntN(4) == 0 {
		do(Retry, 90*time.Second, Horizon-90*time.Second)
	}
	if r.IntN(4) == 0 {
		do(Undo, 2*time.Minute+upTo(r, Horizon-2*time.Minute), 0)
	}
	if r.IntN(5) == 0 {
		p.Faults = append(p.Faults, Fault{Kind: Resolve, For: Horizon, Target: All})
	}
	for n := r.IntN(4); n > 1; n-- {
		p.Faults = append(p.Faults, Fault{Kind: AgentCrashAt, At: 10*time.Second + upTo(r, Horizon-time.Minute), Target: p.anyMember(r)})
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}
