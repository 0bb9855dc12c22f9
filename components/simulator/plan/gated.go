package plan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
)

// Gate is a gate of a group, which is closed until an operator opens it.
type Gate struct {
	// On are the kinds of work that the gate holds, such as step,create; empty: the group has no gate.
	On string
	// PerSlot: each step waits for an opening of its own.
	PerSlot bool
	// Opens is how long after work waits for the gate an operator opens it.
	Opens time.Duration
}

// Shut closes the gate of a group for a while. Then its setting is removed, so that the gate stays closed until work waits for it.
const Shut FaultKind = "shut"

// drawGates gives every sixth group a gate. A gate per group is shut once or twice, since an opening has no end.
func drawGates(r *rand.Rand, p *Plan) {
	for i := range p.Groups {
		g := &p.Groups[i]
		if r.IntN(6) > 0 {
			continue
		}
		on := []string{"step", "step", "create", "step,create", "step,heal", "promote", "step,promote"}[r.IntN(7)]
		if strings.Contains(on, group.GateOnPromote) && g.Stage == 0 {
			on = group.GateOnStep
		}
		perSlot := r.IntN(2) == 0 && !strings.Contains(on, group.GateOnPromote)
		g.Gate = Gate{On: on, PerSlot: perSlot, Opens: (time.Second + upTo(r, time.Minute)).Round(time.Second)}
		for range 1 + r.IntN(2) {
			at := 30*time.Second + upTo(r, Horizon-30*time.Second)
			if f := (Fault{Kind: Shut, At: at, For: min(time.Second+upTo(r, 2*time.Minute), Horizon-at), Target: g.Name}); !perSlot {
				p.Faults = append(p.Faults, f)
			}
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// text is the part of a group's line.
func (g Gate) text() string {
	if g.On == "" {
		return ""
	}
	out := " gate " + g.On + " " + g.Opens.String()
	if g.PerSlot {
		out += " slot"
	}
	return out
}

func (g *Gate) take(f *fields) {
	if f.next("gate") {
		g.On, g.Opens = f.word(), f.time()
		g.PerSlot = f.next("slot")
	}
}
