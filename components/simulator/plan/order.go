package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Limits are the operator's limits of the cluster from a time on; 0: no limit. Without any the operator removes the
// record.
type Limits struct {
	At                         time.Duration
	Steps, Rollouts, Creations int
}

func (l Limits) any() bool { return l.Steps+l.Rollouts+l.Creations > 0 }

// Order is a group's place among the groups.
type Order struct {
	// After is the group that the group is after; empty: none.
	After string
	// Priority at the limits; 0: the default of specs.
	Priority int
}

// drawOrder gives half of the seeds with several groups limits, and every eighth of the others. The limits stay, or
// change once. In every second seed with several groups each later group is after an earlier one with odds of one half.
// A group that an operator deletes has no group after it: its deletion would wait for that group's.
func drawOrder(r *rand.Rand, p *Plan) {
	several := len(p.Groups) > 1
	draw := func(at time.Duration) Limits {
		return Limits{At: at, Steps: r.IntN(3), Rollouts: r.IntN(3), Creations: []int{0, 0, 1, 2}[r.IntN(4)]}
	}
	first, then, changes := draw(0), draw(time.Minute+upTo(r, Horizon)), r.IntN(3) == 0
	if limited := several && r.IntN(2) == 0 || r.IntN(8) == 0; limited && first.any() {
		if p.Limits = append(p.Limits, first); changes {
			p.Limits = append(p.Limits, then)
		}
	}
	ordered := r.IntN(2) == 0
	for i := range p.Groups {
		g := &p.Groups[i]
		if priority := 10 * (1 + r.IntN(9)); r.IntN(3) == 0 && len(p.Limits) > 0 {
			g.Priority = priority
		}
		if i == 0 || !ordered {
			continue
		}
		before := p.Groups[r.IntN(i)].Name
		deleted := slices.ContainsFunc(p.Faults, func(f Fault) bool {
			return f.Target == before && slices.Contains([]FaultKind{Delete, Remake, Spare}, f.Kind)
		})
		if r.IntN(2) == 0 && !deleted {
			g.After = before
		}
	}
}

// text is the part of a group's line.
func (o Order) text() string {
	var b strings.Builder
	if o.After != "" {
		b.WriteString(" after " + o.After)
	}
	if o.Priority > 0 {
		fmt.Fprintf(&b, " priority %d", o.Priority)
	}
	return b.String()
}

func (o *Order) take(f *fields) {
	if f.next("after") {
		o.After = f.word()
	}
	if f.next("priority") {
		o.Priority = int(f.number())
	}
}
