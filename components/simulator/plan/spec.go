package plan

import (
	"math/rand/v2"
	"time"
)

// Everybody is the value of Move.Preserve that means the disks of all members.
const Everybody = "all"

// drawSpecs has every fourth group wait long until a member counts (min_ready), every sixth run a hook
// after a launch, and every sixth ask for approvals; and the operator of every sixth seed preserve disks with one change, and of every eighth
// have one taken when something else touches a member. The next change lets go of both.
func drawSpecs(r *rand.Rand, p *Plan) {
	for i, g := range p.Groups {
		if r.IntN(4) == 0 && g.Deadline == 0 {
			p.Groups[i].MinReady = []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second}[r.IntN(3)]
		}
		if r.IntN(6) == 0 {
			p.Groups[i].Launch = hooks[r.IntN(len(hooks))]
		}
		if r.IntN(6) == 0 && g.Deadline == 0 {
			p.Groups[i].Approval = (time.Second + upTo(r, 90*time.Second)).Round(time.Second)
		}
	}
	preserves, idles := r.IntN(6) == 0, r.IntN(8) == 0
	if at, after := r.IntN(len(p.Moves)), 20*time.Second+upTo(r, 2*time.Minute); preserves && p.Moves[at].At > 0 {
		slot := Member(p.Moves[at].Group, r.IntN(5))
		p.once(at, after, func(m *Move) { m.Preserve = []string{Everybody, slot}[int(after)%2] })
	}
	if at, after := r.IntN(len(p.Moves)), 20*time.Second+upTo(r, 2*time.Minute); idles && p.Moves[at].At > 0 {
		p.once(at, after, func(m *Move) { m.Opportunistic = true })
	}
}

// once changes a move. Where no later one of its group lets go of that, one does a while after it, and asks
// for nothing else.
func (p *Plan) once(at int, after time.Duration, change func(*Move)) {
	lets := p.Moves[at]
	change(&p.Moves[at])
	for _, m := range p.Moves[at+1:] {
		if m.Group == lets.Group {
			return
		}
	}
	lets.At = min(lets.At+after, max(Horizon, lets.At))
	p.Moves = append(p.Moves, lets)
}
