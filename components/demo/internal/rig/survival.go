package rig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/load"
	"cadre.dev/figures"
)

// SurvivalPlan lists the losses of BenchSurvival, and their durations.
type SurvivalPlan struct {
	// Rounds of the losses that last seconds.
	Rounds int
	// Long is the long absence of the coordinators; zero leaves it out.
	Long time.Duration
}

const (
	// briefAway is the short absence of the coordinators.
	briefAway = 60 * time.Second
	// idleFor is how long an agent without work is watched.
	idleFor = 30 * time.Second
	// settleTime bounds how long everything may take to be whole again between two rounds.
	settleTime = 3 * time.Minute
	// after is how much of the time after a loss belongs to its picture.
	after = 2 * time.Second
)

// BenchSurvival deploys PostgreSQL under load, takes its agents, its coordinators and its power
// away, and reports the cost for the writes.
func (r *Rig) BenchSurvival(ctx context.Context, n *Narrator, plan SurvivalPlan) (figures.Result, error) {
	result := figures.Result{Name: "survival", Rounds: plan.Rounds, Machine: figures.ThisMachine()}
	add := func(name, unit, aim string, samples []float64, detail map[string]float64) {
		result.Figures = append(result.Figures, figures.New(name, unit, aim, samples, detail))
	}
	if err := r.Deploy(ctx, n); err != nil {
		return result, err
	}
	if err := r.survivalOfRollout(ctx, n, add); err != nil {
		return result, err
	}
	for _, loss := range losses {
		if err := r.survivalOf(ctx, n, loss, plan.Rounds, add); err != nil {
			return result, err
		}
	}
	brief, err := r.withoutCoordinators(ctx, n, briefAway)
	if err != nil {
		return result, err
	}
	add("coordinators_away_60s_gap_s", "s", "<= 1", []float64{brief.Gap.Seconds()}, map[string]float64{"failed_writes": float64(brief.Failed), "acknowledged": float64(brief.Acknowledged)})
	if plan.Long > 0 {
		long, err := r.withoutCoordinators(ctx, n, plan.Long)
		if err != nil {
			return result, err
		}
		add(fmt.Sprintf("coordinators_away_%.0fs_failed_writes", plan.Long.Seconds()), "writes", "<= 0", []float64{float64(long.Failed)}, map[string]float64{"gap_s": long.Gap.Seconds(), "acknowledged": float64(long.Acknowledged)})
	}
	if _, err := r.settled(ctx); err != nil {
		return result, err
	}
	power, err := r.PowerLoss(ctx, n)
	if err != nil {
		return result, err
	}
	add("power_loss_to_writes_s", "s", "<= 30", []float64{power.GapS - power.CloudS}, map[string]float64{"gap_s": power.GapS, "machines_boot_s": power.CloudS, "missing": float64(power.Verdict.Missing)})
	if err := r.idleAgents(ctx, n, add); err != nil {
		return result, err
	}
	return result, nil
}

// loss is a loss of the primary's agent.
type loss struct {
	name, aim, say string
	take           func(agentProcesses) error
	// newBoot: the agent returns with another Boot.
	newBoot bool
}

var losses = []loss{
	{
		name: "agent_killed_on_primary_gap_s", aim: "<= 1.5", say: "killing the agent's worker",
		take: func(a agentProcesses) error { return syscall.Kill(a.worker, syscall.SIGKILL) },
	},
	{
		name: "agent_container_restarted_on_primary_gap_s", aim: "<= 5", say: "restarting the agent's container", newBoot: true,
		take: func(a agentProcesses) error { return syscall.Kill(a.parent, syscall.SIGTERM) },
	},
}

// survivalOf measures one loss some times.
func (r *Rig) survivalOf(ctx context.Context, n *Narrator, l loss, rounds int, add addFigure) error {
	var gaps, away []float64
	failed, moves := 0, 0
	for range rounds {
		leader, err := r.settled(ctx)
		if err != nil {
			return err
		}
		agents, err := r.agents()
		if err != nil {
			return err
		}
		of, found := agents[leader]
		if !found {
			return fmt.Errorf("the agent of %s is not found", leader)
		}
		boots, err := r.boots(ctx, Postgres)
		if err != nil {
			return err
		}
		from := time.Now()
		if err := l.take(of); err != nil {
			return fmt.Errorf("%s of %s: %w", l.say, leader, err)
		}
		if err := r.backAgain(ctx, l, leader, of, boots[leader]); err != nil {
			return err
		}
		away = append(away, time.Since(from).Seconds())
		s, err := r.survived(ctx, from)
		if err != nil {
			return err
		}
		n.Say("%s of the primary %s: longest gap %.2f s, %d writes failed; whole after %.1f s", l.say, leader, s.Gap.Seconds(), s.Failed, away[len(away)-1])
		gaps, failed, moves = append(gaps, s.Gap.Seconds()), failed+s.Failed, moves+len(s.Servers)-1
	}
	add(l.name, "s", l.aim, gaps, map[string]float64{"failed_writes": float64(failed), "leadership_moves": float64(moves), "whole_after_s": figures.Median(away)})
	return nil
}

// backAgain waits until the lost agent is back, so that the measurement covers its whole absence: a
// stopping agent carries connections for some seconds first.
func (r *Rig) backAgain(ctx context.Context, l loss, slot string, was agentProcesses, boot string) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	err := r.until(ctx, func(ctx context.Context) error {
		now, err := r.agents()
		switch {
		case err != nil:
			return err
		case now[slot].worker == 0 || now[slot].worker == was.worker:
			return errors.New("its worker is the one of before, or there is none")
		case !l.newBoot:
			return nil
		}
		boots, err := r.boots(ctx, Postgres)
		if err == nil && (boots[slot] == "" || boots[slot] == boot) {
			err = errors.New("its boot is the one of before")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the agent of %s is not back: %w", slot, err)
	}
	_, err = r.settled(ctx)
	return err
}

// until tries again and again, each time over another connection, until ctx ends.
func (r *Rig) until(ctx context.Context, try func(context.Context) error) error {
	return again(ctx, func(ctx context.Context) error {
		err := try(ctx)
		if err != nil {
			r.hangUp() // the connection's coordinator may be the lost one
		}
		return err
	})
}

// again repeats try until ctx ends. Unlike until it leaves the connection to the cluster to its
// other users.
func again(ctx context.Context, try func(context.Context) error) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := try(bounded)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

type addFigure func(name, unit, aim string, samples []float64, detail map[string]float64)

// survivalOfRollout rolls the database once.
func (r *Rig) survivalOfRollout(ctx context.Context, n *Narrator, add addFigure) error {
	var report Report
	if err := r.Planned(ctx, n, "2", &report); err != nil {
		return err
	}
	var joining []float64
	for _, s := range report.Slots {
		joining = append(joining, float64(s.PhasesMS[string(operation.Joining)])/1000)
	}
	add("joining_replica_s", "s", "<= 1.5", joining, nil)
	detail := phaseSums(report.Slots)
	detail["rollout_s"], detail["planned_gap_ms"] = report.RolloutS, float64(report.GapMS.Planned)
	add("overhead_percent", "percent", "<= 25", []float64{report.OverheadPercent}, detail)
	return nil
}

// settled waits until the database is whole and returns its leader.
func (r *Rig) settled(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	var leader string
	err := r.until(ctx, func(ctx context.Context) (err error) {
		leader, err = r.leaderOfWhole(ctx)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("the database is not whole after %s: %w", settleTime, err)
	}
	return leader, nil
}

func (r *Rig) leaderOfWhole(ctx context.Context) (string, error) {
	c, err := r.Client()
	if err != nil {
		return "", err
	}
	view, err := c.Group(ctx, Postgres)
	if err != nil {
		return "", err
	}
	if s := view.Status; s.Replicas == 0 || s.Available < s.Replicas {
		return "", fmt.Errorf("%d of %d slots are available, %s", s.Available, s.Replicas, s.Message)
	}
	instances, err := c.Instances(ctx, Postgres)
	if err != nil {
		return "", err
	}
	leader, _, err := leaderOf(instances)
	return leader, err
}

// survived waits until writes continue and sums up the events since from.
func (r *Rig) survived(ctx context.Context, from time.Time) (load.Summary, error) {
	if err := r.AwaitWrites(ctx, from.Add(after), 200); err != nil {
		return load.Summary{}, err
	}
	return r.LoadSummary(ctx, from, time.Now())
}

// withoutCoordinators takes all coordinator CVMs away for a while.
func (r *Rig) withoutCoordinators(ctx context.Context, n *Narrator, away time.Duration) (load.Summary, error) {
	var none load.Summary
	if _, err := r.settled(ctx); err != nil {
		return none, err
	}
	n.Say("all coordinators off for %s", away)
	from := time.Now()
	if err := r.eachCoordinator(func(name string) error { return r.Kill(ctx, name) }); err != nil {
		return none, err
	}
	r.hangUp()
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case <-time.After(time.Until(from.Add(away))):
	}
	if err := r.eachCoordinator(func(name string) error { return r.Start(ctx, name) }); err != nil {
		return none, err
	}
	// Their return belongs to the measurement, because the roles move again.
	if _, err := r.settled(ctx); err != nil {
		return none, err
	}
	s, err := r.survived(ctx, from)
	if err == nil {
		n.Say("coordinators back: longest gap %.2f s, %d writes failed of %d", s.Gap.Seconds(), s.Failed, s.Attempted)
	}
	return s, err
}

func (r *Rig) eachCoordinator(do func(name string) error) error {
	errs := make([]error, Coordinators)
	var all sync.WaitGroup
	for i := range Coordinators {
		all.Go(func() { errs[i] = do(r.PlatformName(fmt.Sprintf("coordinator-%d", i))) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// idleAgents watches the agents while the database has nothing to do.
func (r *Rig) idleAgents(ctx context.Context, n *Narrator, add addFigure) error {
	if _, err := r.settled(ctx); err != nil {
		return err
	}
	agents, err := r.agents()
	if err != nil {
		return err
	}
	n.Say("watching %d idle agents for %s", len(agents), idleFor)
	before := map[string]usage{}
	for slot, a := range agents {
		if before[slot], err = a.usage(); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleFor):
	}
	var cpu, memory, parents, resident []float64
	for slot, a := range agents {
		now, err := a.usage()
		if err != nil {
			return fmt.Errorf("the agent of %s: %w", slot, err)
		}
		cpu = append(cpu, 100*(now.cpu-before[slot].cpu).Seconds()/now.at.Sub(before[slot].at).Seconds())
		memory = append(memory, now.pss/1024)
		parents, resident = append(parents, now.parentPSS/1024), append(resident, now.rss/1024)
	}
	add("idle_agent_cpu_percent", "percent", "<= 1", cpu, nil)
	// Pages of the program that both processes have are counted once.
	add("idle_agent_rss_mb", "MiB", "<= 40", memory, map[string]float64{"of_the_parent": figures.Median(parents), "pages_counted_twice": figures.Median(resident)})
	return nil
}
