package rig

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"cadre.dev/figures"
)

// HealRounds is how often members are broken in each way.
const HealRounds = 3

// HealTime bounds the measurement of one workload: a member that needs longer does not come back.
const HealTime = 40 * time.Minute

// patient is a workload whose members are broken under load.
type patient struct {
	group string
	// prefix is before the names of its figures.
	prefix string
	// minReady is the group's min_ready_seconds.
	minReady time.Duration
	deploy   func(ctx context.Context, n *Narrator) error
	// kill ends the server process of a Slot, as the kernel's memory killer does; hang stops it.
	kill, hang func(ctx context.Context, slot string) error
	// answers is nil once the server of a Slot answers.
	answers func(ctx context.Context, slot string) error
	// stop ends the load and counts its acknowledged writes, and the missing ones among them.
	stop func(ctx context.Context) (acknowledged, missing int, err error)
}

// BenchHealPostgres breaks members of the database under load in every way, repeatedly, and reports
// the time of each automatic repair. The result has the measurements from before an error as well.
func (r *Rig) BenchHealPostgres(ctx context.Context, n *Narrator) (figures.Result, error) {
	r.postgresVars = append(slices.Clone(replaceAuto), "--var", "heal_window=1m", "--var", "heal_delay=10")
	return r.benchHeal(ctx, n, patient{
		group: Postgres, minReady: minReady, deploy: r.Deploy, kill: r.killPostgres,
		hang: func(ctx context.Context, slot string) error {
			return r.Hang(ctx, slot, "postgres", "cadre-patroni", "patroni", "postgres")
		},
		answers: func(ctx context.Context, slot string) error {
			_, _, err := r.Rows(ctx, slot)
			return err
		},
		stop: func(ctx context.Context) (int, int, error) {
			verdict, err := r.StopLoad(ctx)
			return verdict.Acknowledged, verdict.Missing, err
		},
	})
}

// BenchHealEtcd does so with members of etcd, where another CVM comes into the set of voters.
func (r *Rig) BenchHealEtcd(ctx context.Context, n *Narrator) (figures.Result, error) {
	return r.benchHeal(ctx, n, patient{
		group: Etcd, prefix: "etcd_", minReady: etcdMinReady,
		deploy: func(ctx context.Context, n *Narrator) error {
			return r.DeployEtcd(ctx, n, "replace=auto", "heal_window=1m", "heal_delay=10")
		},
		kill: func(ctx context.Context, slot string) error { return r.signal(ctx, slot, "etcd", "KILL", "etcd") },
		hang: func(ctx context.Context, slot string) error { return r.Hang(ctx, slot, "etcd", "etcd") },
		answers: func(ctx context.Context, slot string) error {
			_, err := r.EtcdMemberOf(ctx, slot)
			return err
		},
		stop: func(ctx context.Context) (int, int, error) {
			_, found, err := r.StopRegisters(ctx)
			return found.Acknowledged, found.Missing, err
		},
	})
}

// harm is one way in which members break.
type harm struct {
	name string
	// do breaks the member, await waits until it is back.
	do    func(ctx context.Context, slot, vmUUID string) error
	await func(ctx context.Context, slot, harm string, from time.Time) (Healing, error)
}

func (r *Rig) harms(p patient) []harm {
	return []harm{
		{"dead_service",
			func(ctx context.Context, slot, _ string) error { return p.kill(ctx, slot) },
			func(ctx context.Context, slot, harm string, from time.Time) (Healing, error) {
				return r.awaitServer(ctx, slot, harm, from, p.answers)
			}},
		{"hung_service", func(ctx context.Context, slot, _ string) error { return p.hang(ctx, slot) }, r.AwaitHealed},
		{"dead_cvm", func(ctx context.Context, slot, _ string) error { return r.Kill(ctx, r.PlatformName(slot)) }, r.AwaitHealed},
		{"lost_disk", func(ctx context.Context, _, vmUUID string) error { return r.LoseCVM(ctx, vmUUID) }, r.AwaitHealed},
	}
}

// killPostgres finds the server by its pid file, for its workers have its name.
func (r *Rig) killPostgres(ctx context.Context, slot string) error {
	bin, err := r.postgresBin()
	if err != nil {
		return err
	}
	const script = `kill -9 "$(head -n 1 "$("$0" -h /tmp -U postgres -d postgres -tAc "show data_directory")/postmaster.pid")"`
	_, err = r.Exec(ctx, r.PlatformName(slot), "postgres", "sh", "-c", script, filepath.Join(bin, "psql"))
	return err
}

// benchHeal wants a group whose heal_window is short, since attempts that count make the next
// one wait, and so does the boot before it.
func (r *Rig) benchHeal(ctx context.Context, n *Narrator, p patient) (result figures.Result, err error) {
	result = figures.Result{Name: "heal", Rounds: HealRounds, Machine: figures.ThisMachine()}
	if err := p.deploy(ctx, n); err != nil {
		return result, err
	}
	harms, seen := r.harms(p), map[string][]Healing{}
	defer func() { result.Figures = append(healFigures(p, harms, seen), result.Figures...) }()
	for round := range HealRounds {
		for _, h := range harms {
			back, err := r.harmed(ctx, p.group, h)
			if err != nil {
				return result, fmt.Errorf("round %d: %s of group %s: %w", round+1, h.name, p.group, err)
			}
			seen[h.name] = append(seen[h.name], back)
			n.Say("%d/%d %s of %s", round+1, HealRounds, h.name, p.group)
			n.Healing(back)
		}
	}
	n.Say("stopping the load, reading back what was acknowledged")
	acknowledged, missing, err := p.stop(ctx)
	if err != nil {
		return result, err
	}
	result.Figures = append(result.Figures, single(p.prefix+"writes_missing", "writes", "<= 0", float64(missing), map[string]float64{"acknowledged": float64(acknowledged)}))
	return result, nil
}

// harmed breaks a member that follows, and waits until it is back.
func (r *Rig) harmed(ctx context.Context, of string, h harm) (Healing, error) {
	slot, err := r.aFollower(ctx, of)
	if err != nil {
		return Healing{}, err
	}
	from := time.Now()
	if err := h.do(ctx, slot.Slot, slot.VMUUID); err != nil {
		return Healing{}, err
	}
	return h.await(ctx, slot.Slot, h.name, from)
}

// healFigures are the times of each harm: until the Slot is available again, which includes
// min_ready_seconds, and their parts. A dead CVM's time is compared with the least time of the
// platform plus min_ready_seconds.
func healFigures(p patient, harms []harm, seen map[string][]Healing) []figures.Figure {
	var out []figures.Figure
	for _, h := range harms {
		var down, over []float64
		parts := map[string][]float64{}
		for _, one := range seen[h.name] {
			down, over = append(down, one.DownS), append(over, one.DownS/(one.PlatformS+p.minReady.Seconds()))
			for name, s := range one.line() {
				parts[name] = append(parts[name], s)
			}
		}
		if len(down) == 0 {
			continue
		}
		detail := map[string]float64{"min_ready_s": p.minReady.Seconds()}
		for name, all := range parts {
			if m := figures.Median(all); m != 0 {
				detail[name] = m
			}
		}
		out = append(out, figures.New(p.prefix+h.name+"_to_available_s", "s", "", down, detail))
		if h.name == "dead_cvm" {
			out = append(out, figures.New(p.prefix+"dead_cvm_to_available_over_platform", "ratio", "<= 1.1", over, detail))
		}
	}
	return out
}
