package plan

import (
	"math/rand/v2"
	"time"
)

// Everybody is the value of Move.Preserve that means the disks of all members.
const Everybody = "all"

// drawSpecs draws settings of groups and of one change. Every fourth group waits long until a
// member counts (min_ready), every sixth runs a post-launch hook, and every sixth requires
// approvals. In every sixth seed a change preserves disks, and in every eighth a change is
// opportunistic. The next change removes both.
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

// once changes a move. Where no later move of its group reverts the change, an added move does so
// after a while.
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
