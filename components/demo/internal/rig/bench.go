package rig

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"cadre.dev/figures"
)

// BenchBootDelay and benchMinReady are the settings of the benchmark's aim.
const (
	BenchBootDelay = 5 * time.Second
	benchMinReady  = 5 * time.Second
	benchRounds    = 3
)

// BenchRollout rolls a light group of three Slots several times and compares each rollout's time
// with the least time of its platform and min_ready_seconds. The platform's time comes from the
// platform: from the logged call to the start of the CVM's first service. No program of Cadre runs
// there earlier, so that time cannot hide Cadre's polling.
func (r *Rig) BenchRollout(ctx context.Context, n *Narrator) (figures.Result, error) {
	n.Say("starting the local cloud and three coordinators")
	if err := r.Up(ctx); err != nil {
		return figures.Result{}, err
	}
	if err := r.CreateCluster(ctx); err != nil {
		return figures.Result{}, err
	}
	var overheads, totals, platforms []float64
	// Round 0 creates the group.
	for round := range benchRounds + 1 {
		began := time.Now()
		if _, err := r.ApplyLight(ctx, r.LightFile(), strconv.Itoa(round), "--var", fmt.Sprintf("min_ready=%d", int(benchMinReady.Seconds()))); err != nil {
			return figures.Result{}, err
		}
		if _, err := r.Follow(ctx, Light, nil); err != nil {
			return figures.Result{}, fmt.Errorf("round %d: %w", round, err)
		}
		if round == 0 {
			continue
		}
		rollout, slots, err := r.RolloutReport(ctx, Light)
		if err != nil {
			return figures.Result{}, err
		}
		if err := r.platformTimes(ctx, slots, began); err != nil {
			return figures.Result{}, err
		}
		total := rollout.EndedAt.Sub(rollout.StartedAt)
		overhead := overheadPercent(total, slots, benchMinReady)
		var platform float64
		for _, slot := range slots {
			platform += float64(slot.PlatformMS) / 1000
			n.Say("  %-10s %s", slot.Slot, phaseText(slot.PhasesMS))
		}
		n.Say("round %d: %.1f s, of which platform %.1f s: overhead %.1f %%", round, total.Seconds(), platform, overhead)
		overheads, totals, platforms = append(overheads, overhead), append(totals, total.Seconds()), append(platforms, platform)
	}
	return figures.Result{
		Name: "rollout", Rounds: benchRounds, Machine: figures.ThisMachine(),
		Figures: []figures.Figure{figures.New("rollout_overhead_percent", "percent", "<= 10", overheads, map[string]float64{
			"rollout_s": figures.Median(totals), "platform_s": figures.Median(platforms),
			"slots": 3, "boot_delay_s": BenchBootDelay.Seconds(), "min_ready_s": benchMinReady.Seconds(),
		})},
	}, nil
}

// platformTimes replaces each Slot's platform time with the platform's own record.
func (r *Rig) platformTimes(ctx context.Context, slots []SlotReport, since time.Time) error {
	calls, err := r.Calls(ctx)
	if err != nil {
		return err
	}
	cvms, err := r.CVMs(ctx)
	if err != nil {
		return err
	}
	for i := range slots {
		name := r.PlatformName(slots[i].Slot)
		slots[i].PlatformMS = 0
		for _, call := range calls {
			if call.CVM == name && call.Update() && call.Time.After(since) {
				slots[i].PlatformMS = cvms[name].FirstStart().Sub(call.Time).Milliseconds()
			}
		}
		if slots[i].PlatformMS <= 0 {
			return fmt.Errorf("the platform recorded no update of %s", name)
		}
	}
	return nil
}
