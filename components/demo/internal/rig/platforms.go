package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"cadre.dev/core/group"
	"cadre.dev/figures"
)

// platformRounds is the number of rollouts on each platform.
const platformRounds = 3

// platformRun holds the costs of the rollouts on one platform.
type platformRun struct {
	times, gaps, rollouts []float64
	missing, acknowledged int
}

// BenchPlatforms rolls the demo's database under load on a local cloud of each platform, one after the
// other in random order, and compares the two. on returns the rig of a platform; BenchPlatforms
// removes its cloud.
func BenchPlatforms(ctx context.Context, n *Narrator, on func(platform string) *Rig) (figures.Result, error) {
	runs := map[string]platformRun{}
	names := group.Platforms()
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		n.Say("platform %s", name)
		run, err := on(name).platformRun(ctx, n)
		if err != nil {
			return figures.Result{}, fmt.Errorf("platform %s: %w", name, err)
		}
		runs[name] = run
	}
	ours, theirs := runs[group.PlatformVMM], runs[group.PlatformPhala]
	ratio := func(a, b []float64) []float64 {
		out := make([]float64, 0, len(a))
		for i := range a {
			out = append(out, a[i]/max(b[i], 0.001))
		}
		return out
	}
	detail := func(a, b []float64) map[string]float64 {
		return map[string]float64{group.PlatformVMM: figures.Median(a), group.PlatformPhala: figures.Median(b)}
	}
	return figures.Result{
		Name: "platforms", Rounds: platformRounds, Machine: figures.ThisMachine(),
		Figures: []figures.Figure{
			figures.New("vmm_rollout_over_least_time_vs_phala", "ratio", "<= 1.1", ratio(ours.times, theirs.times), detail(ours.times, theirs.times)),
			figures.New("vmm_write_gap_vs_phala", "ratio", "<= 1.1", ratio(ours.gaps, theirs.gaps), detail(ours.gaps, theirs.gaps)),
			figures.New("vmm_rollout_seconds_vs_phala", "ratio", "<= 1.1", ratio(ours.rollouts, theirs.rollouts), detail(ours.rollouts, theirs.rollouts)),
			figures.New("missing_writes", "writes", "<= 0", []float64{float64(ours.missing + theirs.missing)}, map[string]float64{
				"acknowledged_" + group.PlatformVMM: float64(ours.acknowledged), "acknowledged_" + group.PlatformPhala: float64(theirs.acknowledged),
			}),
		},
	}, nil
}

func (r *Rig) platformRun(ctx context.Context, n *Narrator) (run platformRun, err error) {
	if err := r.Down(ctx); err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, r.Down(context.WithoutCancel(ctx))) }()
	if err := r.Deploy(ctx, n); err != nil {
		return run, err
	}
	for round := range platformRounds {
		var report Report
		if err := r.Planned(ctx, n, strconv.Itoa(round+2), &report); err != nil {
			return run, err
		}
		run.times = append(run.times, 1+report.OverheadPercent/100)
		run.gaps = append(run.gaps, float64(report.GapMS.Planned)/1000)
		run.rollouts = append(run.rollouts, report.RolloutS)
	}
	verdict, err := r.StopLoad(ctx)
	if err != nil {
		return run, err
	}
	run.missing, run.acknowledged = verdict.Missing, verdict.Acknowledged
	return run, nil
}
