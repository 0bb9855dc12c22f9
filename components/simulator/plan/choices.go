package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Choices are settings of a group's rollouts that concern groups without voters.
type Choices struct {
	// MaxFailed Slots may fail, as far as the budget permits it.
	MaxFailed int
	// Renew: a rollout replaces each CVM where the group has extra members and no preserved disk.
	Renew bool
}

// Spans are the windows of a group in whole minutes of the run, such as 3-20,40-180. Empty: every time is open.
type Spans string

// Each returns the first minute of each window, and the first minute after it.
func (s Spans) Each() (out [][2]int, err error) {
	for one := range strings.SplitSeq(string(s), ",") {
		from, to, _ := strings.Cut(one, "-")
		a, err := strconv.Atoi(from)
		b, wrong := strconv.Atoi(to)
		if err := cmp.Or(err, wrong); err != nil || a < 0 || b <= a || b >= 24*60 {
			return nil, fmt.Errorf("%q is no window: name two minutes of the run, such as 3-20", one)
		}
		out = append(out, [2]int{a, b})
	}
	return out, nil
}

// Operators' overrides of a hold of a group, for a while.
const (
	OverrideWindow FaultKind = "override-window"
	OverrideAfter  FaultKind = "override-after"
	OverrideBake   FaultKind = "override-bake"
)

// passes are the kinds of faults that override a hold.
var passes = []FaultKind{OverrideWindow, OverrideAfter, OverrideBake}

// openLate is when the last window of a drawn group opens for the rest of the run.
const openLate = 10 * time.Minute

// drawChoices lets every second group without voters tolerate a failed Slot. Every second of them replaces its members. The
// budget has to permit both. Every fifth group has windows: for a minute or two, and late. Every third group with a stage asks
// for its promotion. In every fourth seed with such a hold an operator overrides it, and in half of the seeds with windows
// a clock is set.
func drawChoices(r *rand.Rand, p *Plan) {
	windows := false
	for i := range p.Groups {
		g := &p.Groups[i]
		tolerates, renews := r.IntN(2) == 0, r.IntN(2) == 0
		if slices.Contains([]string{NoWorkload, "patroni"}, g.Workload) {
			if tolerates && (g.Surge > 1 || g.Percent > 0) {
				g.MaxFailed = 1
			}
			g.Renew = renews && g.Surge > 0
		}
		if asks := time.Second + upTo(r, 2*time.Minute); r.IntN(3) == 0 && g.Stage > 0 {
			g.Promote = asks.Round(time.Second)
		}
		if from, long := 1+r.IntN(4), 1+r.IntN(2); r.IntN(5) == 0 {
			windows = true
			late := int((openLate + upTo(r, 10*time.Minute)).Minutes())
			for n := range p.Moves {
				if p.Moves[n].Group == g.Name {
					p.Moves[n].Window = Spans(fmt.Sprintf("%d-%d,%d-180", from, from+long, late))
				}
			}
		}
	}
	if steps, at := []time.Duration{-time.Hour, -5 * time.Minute, -time.Minute, time.Minute, 5 * time.Minute, time.Hour}[r.IntN(6)], upTo(r, Horizon); windows && r.IntN(2) == 0 {
		p.Faults = append(p.Faults, Fault{Kind: Skew, At: at, Target: Coordinator(r.IntN(p.Coordinators)), By: steps})
	}
	var held []Fault
	for _, g := range p.Groups {
		windowed := slices.ContainsFunc(p.Moves, func(m Move) bool { return m.Group == g.Name && m.Window != "" })
		for kind, is := range []bool{windowed, g.After != "", g.Stage > 0} {
			if is {
				held = append(held, Fault{Kind: passes[kind], Target: g.Name})
			}
		}
	}
	if at := time.Minute + upTo(r, Horizon-time.Minute); len(held) > 0 && r.IntN(4) == 0 {
		f := held[r.IntN(len(held))]
		f.At, f.For = at, time.Second+upTo(r, Horizon-at)
		p.Faults = append(p.Faults, f)
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// text is the part of a group's line.
func (c Choices) text() string {
	var b strings.Builder
	if c.MaxFailed > 0 {
		fmt.Fprintf(&b, " max-failed %d", c.MaxFailed)
	}
	if c.Renew {
		b.WriteString(" renew")
	}
	return b.String()
}

func (c *Choices) take(f *fields) {
	if f.next("max-failed") {
		c.MaxFailed = int(f.number())
	}
	c.Renew = f.next("renew")
}
