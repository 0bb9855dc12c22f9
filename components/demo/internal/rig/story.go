package rig

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/demo/load"
)

// Groups of the demo's cluster.
const (
	Postgres = "postgres"
	App      = "app"
)

// ApplyPostgres writes the database group's spec with the given release.
func (r *Rig) ApplyPostgres(ctx context.Context, release string, extra ...string) error {
	vars, err := r.ImageVars("agent")
	if err != nil {
		return err
	}
	image, err := r.imageVar("patroni", cmp.Or(r.PostgresImage, "patroni"))
	if err != nil {
		return err
	}
	vars = append(append(vars, image...), "--var", "release="+release)
	if r.Programs {
		bin, err := r.postgresBin()
		if err != nil {
			return err
		}
		gid, err := groupID("postgres")
		if err != nil {
			return err
		}
		major := filepath.Base(filepath.Dir(bin))
		vars = append(vars, "--var", "postgres_bin="+bin, "--var", "postgres_gid="+gid, "--var", "postgres_version="+major)
	}
	vars = append(vars, r.postgresVars...)
	return r.apply(ctx, filepath.Join(r.cluster(), "postgres.hcl"), append(vars, extra...))
}

// ApplyApp writes the load's group.
func (r *Rig) ApplyApp(ctx context.Context) error {
	vars, err := r.ImageVars("agent", "load")
	if err != nil {
		return err
	}
	return r.apply(ctx, filepath.Join(r.cluster(), "app.hcl"), append(vars, r.loadVars...))
}

func (r *Rig) apply(ctx context.Context, file string, flags []string) error {
	args := append([]string{"group", "apply", "--var", "cloud=" + r.CloudFile(), "--var", "context=" + r.ContextFile()}, flags...)
	_, err := r.Cadre(ctx, append(args, filepath.Join(r.Root, file))...)
	return err
}

// Follow shows each change of a group until its rollout has ended, and returns
// the last view; see client.Client.Wait for the error of a rollout that failed.
func (r *Rig) Follow(ctx context.Context, name string, see func(client.View)) (client.View, error) {
	c, err := r.Client()
	if err != nil {
		return client.View{}, err
	}
	seen, err := c.Group(ctx, name)
	if err != nil {
		return client.View{}, err
	}
	var last client.View
	err = c.Wait(ctx, name, client.WaitOptions{Index: seen.Index, See: func(v client.View) {
		last = v
		if see != nil {
			see(v)
		}
	}})
	return last, err
}

// Exec runs a command inside a CVM and returns its standard output.
func (r *Rig) Exec(ctx context.Context, cvm, service string, command ...string) (string, error) {
	args := []string{"local", "exec", "--state", filepath.Dir(r.CloudFile())}
	if service != "" {
		args = append(args, "--service", service)
	}
	return r.Cadre(ctx, append(append(args, cvm, "--"), command...)...)
}

// Kill ends a CVM at once, as a host that dies does.
func (r *Rig) Kill(ctx context.Context, cvm string) error {
	_, err := r.Cadre(ctx, "local", "fault", "--state", filepath.Dir(r.CloudFile()), "kill", cvm)
	return err
}

// PlatformName is a Slot's CVM on the platform.
func (r *Rig) PlatformName(slot string) string { return "demo-" + slot }

// LoadSummary asks the load for the figures of a span; zero times are open.
func (r *Rig) LoadSummary(ctx context.Context, from, to time.Time) (load.Summary, error) {
	var s load.Summary
	return s, r.loadCtl(ctx, &s, "summary", stamp(from), stamp(to))
}

// StopLoad stops the writers and compares the journal with the leader's table; with several ways,
// the sum of all ways.
func (r *Rig) StopLoad(ctx context.Context) (load.Verdict, error) {
	var v load.Verdict
	if r.Routes {
		all, err := r.wayVerdicts(ctx)
		return together(all), err
	}
	if err := r.loadCtl(ctx, nil, "stop"); err != nil {
		return v, err
	}
	return v, r.loadCtl(ctx, &v, "verify")
}

func (r *Rig) loadCtl(ctx context.Context, into any, args ...string) error {
	return r.loadCtlOf(ctx, App, into, args...)
}

// loadCtlOf asks the load in the first Slot of a group.
func (r *Rig) loadCtlOf(ctx context.Context, group string, into any, args ...string) error {
	out, err := r.Exec(ctx, r.PlatformName(group+"-0"), "load", append([]string{"cadre-load", "ctl"}, args...)...)
	if err != nil {
		return fmt.Errorf("ask the load: %w", err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("read the load's answer %q: %w", tail(out, 200), err)
	}
	return nil
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// AwaitWrites waits until the load has n more acknowledged writes than at since; by each way,
// where there are some.
func (r *Rig) AwaitWrites(ctx context.Context, since time.Time, n int) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := r.wrote(ctx, since, n)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

func (r *Rig) wrote(ctx context.Context, since time.Time, n int) error {
	if r.Routes {
		return r.allWaysWrite(ctx, since, n)
	}
	s, err := r.LoadSummary(ctx, since, time.Time{})
	if err == nil && s.Acknowledged < n {
		err = fmt.Errorf("the load got %d writes acknowledged, and not %d: %v", s.Acknowledged, n, s.Errors)
	}
	return err
}

const diskMarker = "/var/lib/postgresql/demo-marker"

// MarkDisks leaves a file on each database Slot's data disk.
func (r *Rig) MarkDisks(ctx context.Context, instances []group.InstanceStatus) error {
	for _, i := range instances {
		if _, err := r.Exec(ctx, r.PlatformName(i.Slot), "postgres", "sh", "-c", "echo "+i.Slot+" > "+diskMarker); err != nil {
			return fmt.Errorf("mark the disk of %s: %w", i.Slot, err)
		}
	}
	return nil
}

// DiskKept reports whether the mark that MarkDisks left is still on the Slot's disk.
func (r *Rig) DiskKept(ctx context.Context, slot string) bool {
	out, err := r.Exec(ctx, r.PlatformName(slot), "postgres", "cat", diskMarker)
	return err == nil && strings.TrimSpace(out) == slot
}

// RolloutReport describes the group's last rollout from its records.
func (r *Rig) RolloutReport(ctx context.Context, name string) (operation.Rollout, []SlotReport, error) {
	c, err := r.Client()
	if err != nil {
		return operation.Rollout{}, nil, err
	}
	last, err := lastEnded(ctx, c, name)
	if err != nil {
		return last, nil, err
	}
	instances, err := c.Instances(ctx, name)
	if err != nil {
		return last, nil, err
	}
	var slots []SlotReport
	for _, i := range instances {
		described, err := c.Instance(ctx, i.Slot)
		if err != nil {
			return last, nil, err
		}
		for _, op := range described.Operations {
			if op.Rollout != last.ID || op.Phase != operation.Done {
				continue
			}
			s := slotReport(op)
			s.Admitted = described.Status.Observed == op.To
			slots = append(slots, s)
		}
	}
	sortByOrder(slots)
	return last, slots, nil
}

// lastEnded waits until the newest rollout's end is recorded: any coordinator can
// say that it is complete a moment before the leader has written so.
func lastEnded(ctx context.Context, c *client.Client, name string) (operation.Rollout, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		rollouts, err := c.Rollouts(ctx, name)
		if err == nil && len(rollouts) > 0 && !rollouts[0].EndedAt.IsZero() {
			return rollouts[0], nil
		}
		select {
		case <-ctx.Done():
			return operation.Rollout{}, errors.Join(fmt.Errorf("no rollout of %s is recorded as ended", name), err, ctx.Err())
		case <-ticker.C:
		}
	}
}
