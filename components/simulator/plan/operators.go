package plan

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Operators' actions about a group, in addition to its moves.
const (
	// Delete deletes a group permanently with its CVMs and their disks; its later moves have no
	// effect. Remake deletes it, and For later makes it again under its name with its last move.
	// Spare withdraws a deletion after For, and makes a group that is gone by then again.
	Delete FaultKind = "delete"
	Remake FaultKind = "remake"
	Spare  FaultKind = "spare"
	// Retry watches the group for For, and retries its rollout once if it fails. Undo returns to
	// the earlier Revision at once.
	Retry FaultKind = "retry"
	Undo  FaultKind = "undo"
	// Resolve reports, within For, how each unanswered call ended whose outcome is certain, in all
	// groups.
	Resolve FaultKind = "resolve"
)

// AgentCrashAt kills the process of a member's agent at one of the next points of its own work. It
// starts again at once, in the same Boot.
const AgentCrashAt FaultKind = "agent-crash-at"

// operators are operators' possible actions about a group.
var operators = []FaultKind{Delete, Remake, Spare, Retry, Undo, Resolve, AgentCrashAt}

// drawOperators draws operators' actions. In every sixth seed a group is deleted, and mostly made again.
// In every fourth seed a failed rollout is retried, and in every fourth a rollout is undone. In every
// fifth seed calls are resolved.
func drawOperators(r *rand.Rand, p *Plan) {
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
