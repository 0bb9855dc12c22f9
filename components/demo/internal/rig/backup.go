package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

// backupFile is in a coordinator's memory: a snapshot holds every token.
const backupFile = "/run/cadre/backup.snap"

// Backup takes a snapshot of Consul, with every record of the cluster, and keeps it at a
// coordinator until that one is restarted.
func (r *Rig) Backup(ctx context.Context, coordinator string) error {
	return r.snapshot(ctx, coordinator, "save")
}

// Restore restores the Backup of the same coordinator on all coordinators: the records have the
// state of that time, without all later changes.
func (r *Rig) Restore(ctx context.Context, coordinator string) error {
	return r.snapshot(ctx, coordinator, "restore")
}

func (r *Rig) snapshot(ctx context.Context, coordinator, verb string) error {
	if err := r.Consul(ctx, coordinator, "snapshot "+verb, backupFile); err != nil {
		return fmt.Errorf("%s a snapshot at %s: %w", verb, coordinator, err)
	}
	return nil
}

// Consul runs a command of Consul's own tool, such as "kv delete", at a coordinator with every
// right. The token stays in that CVM, because a Rig logs its commands.
func (r *Rig) Consul(ctx context.Context, coordinator, command string, args ...string) error {
	hide, err := r.showToken(coordinator)
	if err != nil {
		return err
	}
	words := append([]string{"consul"}, strings.Fields(command)...)
	out, err := r.Exec(ctx, r.PlatformName(coordinator), coordinatorService, append(append(words, "-token-file=/"+tokenFile), args...)...)
	if err != nil {
		err = fmt.Errorf("consul %s at %s: %w: %s", command, coordinator, err, out)
	}
	return errors.Join(err, hide())
}

// RestoreReport is the result of the drill of a restored backup, written to
// .out/drill-restore.json. Times are seconds since the restore.
type RestoreReport struct {
	// Halted is the coordinators' common reason for the halt; HaltedS is when all had it.
	Halted  string  `json:"halted"`
	HaltedS float64 `json:"halted_s"`
	// DryRun is the output of `cadre cluster accept-restore`, Did its output with --yes.
	DryRun string `json:"dry_run"`
	Did    string `json:"did"`
	// Calls of the platform's API that changed something, from the restore until an
	// operator recovered the cluster.
	Calls int `json:"calls_while_halted"`
	// WholeS is when the group was whole at the spec that was applied afterwards.
	WholeS float64 `json:"whole_s"`
}

// Check returns an error when the cluster did not halt, or did not resume.
func (r RestoreReport) Check() error {
	var errs []error
	if !strings.Contains(r.Halted, "cadre cluster accept-restore") {
		errs = append(errs, fmt.Errorf("the reason of the halt does not name the way out, `cadre cluster accept-restore`: %s", r.Halted))
	}
	if r.Calls > 0 {
		errs = append(errs, fmt.Errorf("%d calls of the platform were made from the restore until an operator recovered the cluster", r.Calls))
	}
	return errors.Join(errs...)
}

// Print prints the report.
func (r RestoreReport) Print(w io.Writer) {
	fmt.Fprintf(w, "\n  restored backup: halted after %.1f s, %d calls of the platform until an operator recovered it, whole after %.1f s\n", r.HaltedS, r.Calls, r.WholeS)
	fmt.Fprintf(w, "\n  what the cluster said:\n    %s\n", r.Halted)
	for _, one := range []struct{ command, said string }{{"cadre cluster accept-restore", r.DryRun}, {"cadre cluster accept-restore --yes", r.Did}} {
		fmt.Fprintf(w, "\n  %s\n", one.command)
		for line := range strings.Lines(one.said) {
			fmt.Fprintf(w, "    %s", line)
		}
	}
}

// DeployLight starts the cloud, the coordinators and the light group that apply writes.
func (r *Rig) DeployLight(ctx context.Context, apply func(context.Context) error) error {
	if err := r.Up(ctx); err != nil {
		return err
	}
	if err := r.CreateLightCluster(ctx); err != nil {
		return err
	}
	if err := apply(ctx); err != nil {
		return err
	}
	_, err := r.Follow(ctx, Light, nil)
	return err
}

// RestoredBackup backs up the records of the light group's cluster, rolls the group to one release,
// restores the backup, resumes the cluster with `cadre cluster accept-restore` and rolls the group
// to another release. apply writes the group's spec with a new release.
func (r *Rig) RestoredBackup(ctx context.Context, n *Narrator, apply func(context.Context) error) (RestoreReport, error) {
	var report RestoreReport
	const at = "coordinator-0"
	n.Say("backing up the records of all coordinators")
	if err := r.Backup(ctx, at); err != nil {
		return report, err
	}
	n.Say("rolling %s to another release: steps that the backup does not know", Light)
	if err := r.rollLight(ctx, n, apply); err != nil {
		return report, err
	}
	before, err := r.Calls(ctx)
	if err != nil {
		return report, err
	}
	restored := time.Now()
	n.Say("restoring the backup")
	if err := r.Restore(ctx, at); err != nil {
		return report, err
	}
	if report.Halted, err = r.awaitHalt(ctx, true); err != nil {
		return report, err
	}
	report.HaltedS = time.Since(restored).Seconds()
	n.Say("halted: %s", report.Halted)
	if report.DryRun, err = r.Cadre(ctx, "cluster", "accept-restore"); err != nil {
		return report, err
	}
	after, err := r.Calls(ctx)
	if err != nil {
		return report, err
	}
	report.Calls = len(after) - len(before)
	n.Say("going on: cadre cluster accept-restore --yes")
	if report.Did, err = r.Cadre(ctx, "cluster", "accept-restore", "--yes", "--reason", "the drill restored a backup"); err != nil {
		return report, err
	}
	if _, err := r.awaitHalt(ctx, false); err != nil {
		return report, err
	}
	n.Say("rolling %s to a third release", Light)
	if err := r.rollLight(ctx, n, apply); err != nil {
		return report, err
	}
	report.WholeS = time.Since(restored).Seconds()
	n.Say("%s is whole again", Light)
	return report, report.Check()
}

func (r *Rig) rollLight(ctx context.Context, n *Narrator, apply func(context.Context) error) error {
	if err := apply(ctx); err != nil {
		return err
	}
	v, err := r.Follow(ctx, Light, n.Rollout)
	if err != nil {
		return fmt.Errorf("roll %s: %w; last seen: %s", Light, err, v.Status.Message)
	}
	return nil
}

// awaitHalt waits until every coordinator that answers says that it is halted, or that
// it is not, and returns its reason. Any of them may answer: each is asked by its
// Instance.
func (r *Rig) awaitHalt(ctx context.Context, wanted bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last string
	for {
		said, all, err := r.halts(ctx)
		if err == nil && all == wanted && (wanted || said == "") {
			return said, nil
		}
		if err != nil {
			last = err.Error()
		} else if last = "the coordinators are not halted"; said != "" {
			last = said
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for halted=%v: %w; last seen: %s", wanted, ctx.Err(), last)
		case <-tick.C:
		}
	}
}

// halts asks each coordinator for the reason of its halt: it returns the reason of a halted
// coordinator, and whether all are halted.
func (r *Rig) halts(ctx context.Context) (reason string, all bool, err error) {
	all = true
	for ordinal := range Coordinators {
		c, err := r.ClientOf(ctx, group.SlotName("coordinator", ordinal))
		if err != nil {
			return reason, false, err
		}
		info, err := c.Cluster(ctx)
		_ = c.Close()
		if err != nil {
			return reason, false, err
		}
		if why := info.GetHalted(); why != "" {
			reason = why
		} else {
			all = false
		}
	}
	return reason, all, nil
}

// ClientOf returns an API client of one coordinator: behind the gateway's name of its
// Instance is no other one. The caller closes it.
func (r *Rig) ClientOf(ctx context.Context, coordinator string) (*client.Client, error) {
	c, err := client.LoadContext(r.ContextFile())
	if err != nil {
		return nil, err
	}
	cvms, err := r.CVMs(ctx)
	if err != nil {
		return nil, err
	}
	// An Instance's name leads to that one CVM; the certificate is the coordinators' all the same.
	c.CoordinatorAppID = cvms[r.PlatformName(coordinator)].InstanceID
	return client.Dial(c, client.Options{})
}
