package rig

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"cadre.dev/figures"
)

// HealRounds is how often BenchHeal does each harm.
const HealRounds = 3

// harm is one way in which members break.
type harm struct {
	name string
	// do breaks the member, await waits until it is back.
	do    func(r *Rig, ctx context.Context, slot, vmUUID string) error
	await func(r *Rig, ctx context.Context, slot, harm string, from time.Time) (Healing, error)
}

var harms = []harm{
	{name: "dead_service", await: (*Rig).AwaitServer, do: (*Rig).killServer},
	{name: "hung_service", await: (*Rig).AwaitHealed, do: func(r *Rig, ctx context.Context, slot, _ string) error {
		return r.Hang(ctx, slot, "postgres", "cadre-patroni", "patroni", "postgres")
	}},
	{name: "dead_cvm", await: (*Rig).AwaitHealed, do: func(r *Rig, ctx context.Context, slot, _ string) error {
		return r.Kill(ctx, r.PlatformName(slot))
	}},
	{name: "lost_disk", await: (*Rig).AwaitHealed, do: func(r *Rig, ctx context.Context, _, vmUUID string) error {
		return r.LoseCVM(ctx, vmUUID)
	}},
}

// killServer ends the database's server process of a Slot, as the kernel's memory killer does.
func (r *Rig) killServer(ctx context.Context, slot, _ string) error {
	bin, err := r.postgresBin()
	if err != nil {
		return err
	}
	const script = `kill -9 "$(head -n 1 "$("$0" -h /tmp -U postgres -d postgres -tAc "show data_directory")/postmaster.pid")"`
	_, err = r.Exec(ctx, r.PlatformName(slot), "postgres", "sh", "-c", script, filepath.Join(bin, "psql"))
	return err
}

// BenchHeal breaks members of the database under load in every way, again and again, and says
// how long each took to come back by itself. What was measured before something went wrong is
// in the result all the same.
func (r *Rig) BenchHeal(ctx context.Context, n *Narrator) (result figures.Result, err error) {
	result = figures.Result{Name: "heal", Rounds: HealRounds, Machine: figures.ThisMachine()}
	// Attempts that count would make the next one wait, and so would the boot before it.
	r.postgresVars = append(slices.Clone(replaceAuto), "--var", "heal_window=1m", "--var", "heal_delay=10")
	if err := r.Deploy(ctx, n); err != nil {
		return result, err
	}
	seen := map[string][]Healing{}
	defer func() { result.Figures = append(healFigures(seen), result.Figures...) }()
	for round := range HealRounds {
		for _, h := range harms {
			slot, err := r.aFollower(ctx)
			if err != nil {
				return result, err
			}
			from := time.Now()
			if err := h.do(r, ctx, slot.Slot, slot.VMUUID); err != nil {
				return result, fmt.Errorf("%s of %s: %w", h.name, slot.Slot, err)
			}
			back, err := h.await(r, ctx, slot.Slot, h.name, from)
			if err != nil {
				return result, fmt.Errorf("round %d: %w", round+1, err)
			}
			seen[h.name] = append(seen[h.name], back)
			n.Say("%d/%d %s", round+1, HealRounds, h.name)
			n.Healing(back)
		}
	}
	n.Say("stopping the load, reading its rows back from the leader")
	verdict, err := r.StopLoad(ctx)
	if err != nil {
		return result, err
	}
	result.Figures = append(result.Figures, single("writes_missing", "writes", "<= 0", float64(verdict.Missing), map[string]float64{"acknowledged": float64(verdict.Acknowledged)}))
	return result, nil
}

// healFigures are the times of each harm: from it to available again, which includes
// min_ready_seconds, and how they were spent. A dead CVM's is held against what the platform and that take at least.
func healFigures(seen map[string][]Healing) []figures.Figure {
	var out []figures.Figure
	for _, h := range harms {
		var down, over []float64
		parts := map[string][]float64{}
		for _, one := range seen[h.name] {
			down, over = append(down, one.DownS), append(over, one.DownS/(one.PlatformS+minReady.Seconds()))
			for name, s := range one.line() {
				parts[name] = append(parts[name], s)
			}
		}
		if len(down) == 0 {
			continue
		}
		detail := map[string]float64{"min_ready_s": minReady.Seconds()}
		for name, all := range parts {
			if m := figures.Median(all); m != 0 {
				detail[name] = m
			}
		}
		out = append(out, figures.New(h.name+"_to_available_s", "s", "", down, detail))
		if h.name == "dead_cvm" {
			out = append(out, figures.New("dead_cvm_to_available_over_platform", "ratio", "<= 1.1", over, detail))
		}
	}
	return out
}
