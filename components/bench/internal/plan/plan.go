package plan

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout/rollouttest"
	"cadre.dev/figures"
)

// The sizes of groups, in Slots.
const (
	small  = 100
	medium = 1_000
	large  = 10_000
)

// Options of a run.
type Options struct {
	Rounds int
	// Spend is how long each size is planned again and again in one round; at least once.
	Spend    time.Duration
	Progress io.Writer
}

// cost of one Decide.
type cost struct {
	ms float64
	mb float64
}

// Run measures every size once in each round, in random order, so that a disturbance of the machine
// affects every size.
func Run(ctx context.Context, o Options) (figures.Result, error) {
	type subject struct {
		slots int
		kind  string
	}
	subjects := []subject{{small, group.WorkloadNone}, {medium, group.WorkloadNone}, {large, group.WorkloadNone}, {medium, group.WorkloadPatroni}, {large, group.WorkloadPatroni}}
	costs := map[subject][]cost{}
	for round := range o.Rounds {
		for _, i := range rand.Perm(len(subjects)) {
			if err := ctx.Err(); err != nil {
				return figures.Result{}, err
			}
			s := subjects[i]
			c := measure(s.slots, s.kind, o.Spend)
			costs[s] = append(costs[s], c)
			_, _ = fmt.Fprintf(o.Progress, "round %d: %d slots, workload %s: %.2f ms, %.1f MB\n", round+1, s.slots, s.kind, c.ms, c.mb)
		}
	}
	of := func(slots int, kind string, number func(cost) float64) []float64 {
		var out []float64
		for _, c := range costs[subject{slots, kind}] {
			out = append(out, number(c))
		}
		return out
	}
	ms := func(c cost) float64 { return c.ms }
	mb := func(c cost) float64 { return c.mb }
	growth := of(large, group.WorkloadNone, ms)
	for i, c := range costs[subject{medium, group.WorkloadNone}] {
		growth[i] /= c.ms
	}
	roles := func(slots int) map[string]float64 {
		return map[string]float64{
			"slots": float64(slots), "with_roles_ms": figures.Median(of(slots, group.WorkloadPatroni, ms)),
			"with_roles_mb": figures.Median(of(slots, group.WorkloadPatroni, mb)),
		}
	}
	return figures.Result{Name: "plan", Rounds: o.Rounds, Machine: figures.ThisMachine(), Figures: []figures.Figure{
		figures.New("plan_100_ms", "ms", "", of(small, group.WorkloadNone, ms), map[string]float64{"slots": small}),
		figures.New("plan_1000_ms", "ms", "<= 6", of(medium, group.WorkloadNone, ms), roles(medium)),
		figures.New("plan_10000_ms", "ms", "<= 120", of(large, group.WorkloadNone, ms), roles(large)),
		figures.New("plan_growth", "ratio", "<= 12", growth, map[string]float64{"of_slots": large, "to_slots": medium}),
		figures.New("plan_10000_mb", "MB", "<= 80", of(large, group.WorkloadNone, mb), map[string]float64{"slots": large}),
	}}, nil
}

// measure is the mean cost of one of many decisions: time with the collection of its garbage, and
// all allocated memory, freed or not.
func measure(slots int, kind string, spend time.Duration) cost {
	world := rollouttest.Busy(slots, kind)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, started := 0, time.Now()
	for took := time.Duration(0); n == 0 || took < spend; took = time.Since(started) {
		world.Decide()
		n++
	}
	took := time.Since(started)
	runtime.ReadMemStats(&after)
	return cost{
		ms: took.Seconds() * 1e3 / float64(n),
		mb: float64(after.TotalAlloc-before.TotalAlloc) / 1e6 / float64(n),
	}
}
