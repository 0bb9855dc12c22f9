package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cadre.dev/core/group"
)

// minReady is min_ready_seconds of clusters/postgres/postgres.hcl.
const minReady = 5 * time.Second

// Deploy starts the cloud, the coordinators, the database and the load.
func (r *Rig) Deploy(ctx context.Context, n *Narrator) error {
	n.Say("starting the local cloud")
	if err := r.Up(ctx); err != nil {
		return err
	}
	n.Say("creating three coordinator CVMs")
	if err := r.CreateCluster(ctx); err != nil {
		return err
	}
	n.Say("applying group %s: three PostgreSQL CVMs", Postgres)
	if err := r.ApplyPostgres(ctx, "1"); err != nil {
		return err
	}
	n.Say("applying group %s: a CVM that writes to the database and keeps a journal", App)
	if err := r.ApplyApp(ctx); err != nil {
		return err
	}
	for _, name := range []string{Postgres, App} {
		if _, err := r.Follow(ctx, name, n.Rollout); err != nil {
			return fmt.Errorf("deploy %s: %w", name, err)
		}
	}
	n.Say("waiting for steady writes")
	if err := r.AwaitWrites(ctx, time.Now(), 200); err != nil {
		return err
	}
	return writeText(r.deployedFile(), "")
}

// deployedFile says that Deploy came to its end.
func (r *Rig) deployedFile() string { return filepath.Join(r.State, "deployed") }

// Deployed reports whether a whole cluster was deployed here and not removed since.
func (r *Rig) Deployed() bool {
	_, err := os.Stat(r.deployedFile())
	return err == nil
}

// BringBack starts the cloud of an earlier deployment and waits until the cluster works again. It
// leaves a running cloud alone.
func (r *Rig) BringBack(ctx context.Context, n *Narrator) error {
	n.Say("a demo cluster is there already: starting its local cloud")
	if err := r.PowerOn(ctx); err != nil {
		return err
	}
	n.Say("waiting for steady writes")
	if err := r.AwaitWrites(ctx, time.Now(), 200); err != nil {
		return err
	}
	for _, name := range []string{Postgres, App} {
		if _, err := r.Follow(ctx, name, n.Rollout); err != nil {
			return fmt.Errorf("wait for %s: %w", name, err)
		}
	}
	return nil
}

// Demo runs the whole demo and returns the measurements.
func (r *Rig) Demo(ctx context.Context, n *Narrator) (Report, error) {
	began := time.Now()
	r.postgresVars = replaceAuto
	if err := r.Deploy(ctx, n); err != nil {
		return Report{}, err
	}
	var report Report
	if err := r.Planned(ctx, n, "2", &report); err != nil {
		return report, err
	}
	if err := r.Unplanned(ctx, n, &report); err != nil {
		return report, err
	}
	report.TookS = time.Since(began).Seconds()
	if err := r.Healed(ctx, n, &report); err != nil {
		return report, err
	}
	n.Say("stopping the load, reading its rows back from the leader")
	verdict, err := r.StopLoad(ctx)
	if err != nil {
		return report, err
	}
	whole, err := r.LoadSummary(ctx, time.Time{}, time.Time{})
	if err != nil {
		return report, err
	}
	report.Writes = WritesReport{
		Attempted: whole.Attempted, Acknowledged: whole.Acknowledged, Failed: whole.Failed, Missing: verdict.Missing,
	}
	report.Errors = whole.Errors
	report.AllS = time.Since(began).Seconds()
	return report, nil
}

// Planned rolls the database to another release and measures it.
func (r *Rig) Planned(ctx context.Context, n *Narrator, release string, report *Report) error {
	c, err := r.Client()
	if err != nil {
		return err
	}
	instances, err := c.Instances(ctx, Postgres)
	if err != nil {
		return err
	}
	if err := r.MarkDisks(ctx, instances); err != nil {
		return err
	}
	from := time.Now()
	n.Say("changing the spec of %s: a new compose revision", Postgres)
	if err := r.ApplyPostgres(ctx, release); err != nil {
		return err
	}
	if _, err := r.Follow(ctx, Postgres, n.Rollout); err != nil {
		return fmt.Errorf("roll %s: %w", Postgres, err)
	}
	// Writes that follow the last step belong to the picture too.
	if err := r.AwaitWrites(ctx, time.Now(), 50); err != nil {
		return err
	}
	summary, err := r.LoadSummary(ctx, from, time.Now())
	if err != nil {
		return err
	}
	if err := r.notePlanned(ctx, report, from, time.Now()); err != nil {
		return err
	}
	rollout, slots, err := r.RolloutReport(ctx, Postgres)
	if err != nil {
		return err
	}
	if err := r.platformTimes(ctx, slots, from); err != nil {
		return err
	}
	for i := range slots {
		slots[i].DiskKept = r.DiskKept(ctx, slots[i].Slot)
		n.Say("  %-12s %s", slots[i].Slot, phaseText(slots[i].PhasesMS))
	}
	total := rollout.EndedAt.Sub(rollout.StartedAt)
	report.Slots = slots
	report.GapMS.Planned = summary.Gap.Milliseconds()
	report.LeadershipMoves, report.Transfers = len(summary.Servers)-1, rollout.Transfers
	report.RolloutS = total.Seconds()
	report.OverheadPercent = overheadPercent(total, slots, minReady)
	n.Say("rollout complete in %.0f s: %d writes acknowledged, longest gap %.1f s", total.Seconds(), summary.Acknowledged, summary.Gap.Seconds())
	return nil
}

// Unplanned kills the leader's CVM and measures until writes are back.
func (r *Rig) Unplanned(ctx context.Context, n *Narrator, report *Report) error {
	c, err := r.Client()
	if err != nil {
		return err
	}
	instances, err := c.Instances(ctx, Postgres)
	if err != nil {
		return err
	}
	leader, boot, err := leaderOf(instances)
	if err != nil {
		return err
	}
	from := time.Now()
	report.Killed, report.killedBoot, report.KilledAt = leader, boot, from
	n.Say("killing the leader's CVM %s, unplanned", leader)
	if err := r.Kill(ctx, r.PlatformName(leader)); err != nil {
		return err
	}
	if err := r.AwaitWrites(ctx, time.Now().Add(time.Second), 100); err != nil {
		return err
	}
	summary, err := r.LoadSummary(ctx, from, time.Now())
	if err != nil {
		return err
	}
	if err := r.noteUnplanned(ctx, report, from, time.Now()); err != nil {
		return err
	}
	report.GapMS.Unplanned = summary.Gap.Milliseconds()
	n.Say("writes are back after %.1f s", summary.Gap.Seconds())
	return nil
}

func leaderOf(instances []group.InstanceStatus) (slot, boot string, err error) {
	for _, i := range instances {
		if i.Role == "leader" {
			return i.Slot, i.BootID, nil
		}
	}
	return "", "", errors.New("no member of the group reports that it leads")
}
