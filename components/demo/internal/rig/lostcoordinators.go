package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/demo/load"
)

// LostReport is the result of a drill that loses the disks of all coordinators, written to
// .out/<drill>.json. Times are seconds.
type LostReport struct {
	// BackupS is the duration of the backup, and BackupBytes its size.
	BackupS     float64 `json:"backup_s"`
	BackupBytes int     `json:"backup_bytes"`
	// Refused are the answers to a file of another cluster, a truncated and an older one, and
	// RefusedCalls the changes on the platform that they caused.
	Refused      map[string]string `json:"refused"`
	RefusedCalls int               `json:"refused_calls"`
	// Edited is the coordinators' answer to an edited file.
	Edited string `json:"edited"`
	// RestoredS is the duration of the restore, from the loss, with the refused files. Restored is
	// the output of the command.
	RestoredS float64 `json:"restored_s"`
	Restored  string  `json:"restored"`
	// SameClusterID: the restored coordinators have the cluster ID of the lost ones.
	SameClusterID bool   `json:"same_cluster_id"`
	Halted        string `json:"halted"`
	// WholeS is when the group was whole after the accepted restore, and RolledS when it had rolled
	// to another release, both since the loss.
	WholeS  float64 `json:"whole_s"`
	RolledS float64 `json:"rolled_s"`
	// Rebooted are members that booted between the loss and the first roll.
	Rebooted []string `json:"rebooted"`
	// Adopted is the slot that was made after the backup.
	Adopted string `json:"adopted,omitempty"`
	// Verdict is about the writes of the load, and GapS their longest gap.
	Verdict *load.Verdict `json:"verdict,omitempty"`
	GapS    float64       `json:"gap_s,omitempty"`
}

// Check reports each claim of the drill that does not hold.
func (r LostReport) Check() error {
	var errs []error
	for name, code := range refusedCodes {
		if !strings.Contains(r.Refused[name], code) {
			errs = append(errs, fmt.Errorf("a file that is %s: %q, want %s", name, r.Refused[name], code))
		}
	}
	switch {
	case r.RefusedCalls > 0:
		errs = append(errs, fmt.Errorf("refused files caused %d calls of the platform", r.RefusedCalls))
	case !strings.Contains(r.Edited, "BACKUP_MAC_MISMATCH"):
		errs = append(errs, fmt.Errorf("an edited file: %q", r.Edited))
	case !r.SameClusterID:
		errs = append(errs, errors.New("the restored coordinators have another cluster ID"))
	case !strings.Contains(r.Halted, "EPOCH_REGRESSION"):
		errs = append(errs, fmt.Errorf("the restored cluster is not halted: %q", r.Halted))
	case len(r.Rebooted) > 0:
		errs = append(errs, fmt.Errorf("members booted because the coordinators were lost: %q", r.Rebooted))
	case r.Verdict != nil && r.Verdict.Missing > 0:
		errs = append(errs, fmt.Errorf("%d of %d acknowledged writes are missing", r.Verdict.Missing, r.Verdict.Acknowledged))
	}
	return errors.Join(errs...)
}

// Print shows the report to people.
func (r LostReport) Print(w io.Writer) {
	fmt.Fprintf(w, "\n  all coordinators lost: backup of %d bytes in %.1f s, restored %.1f s after the loss, group whole after %.1f s, rolled after %.1f s, %d members booted\n",
		r.BackupBytes, r.BackupS, r.RestoredS, r.WholeS, r.RolledS, len(r.Rebooted))
	if r.Verdict != nil {
		fmt.Fprintf(w, "  writes acknowledged: %d, missing: %d, longest gap %.1f s\n", r.Verdict.Acknowledged, r.Verdict.Missing, r.GapS)
	}
	if r.Adopted != "" {
		fmt.Fprintf(w, "  made after the backup and adopted: %s\n", r.Adopted)
	}
}

var refusedCodes = map[string]string{"another cluster's": "BACKUP_OTHER_CLUSTER", "truncated": "BACKUP_TRUNCATED", "of an older version": "BACKUP_VERSION"}

// Lost is a drill that loses the coordinators.
type Lost struct {
	// Group is the watched group, and ClusterFile has the coordinators, below the checkout.
	Group, ClusterFile string
	// Since, if set, makes a change that the backup lacks.
	Since func(context.Context) error
	// SinceSlot is a slot that Since made; "": none.
	SinceSlot string
	// Repeat, if set, makes the change again after the restore, before the restore is accepted.
	Repeat func(context.Context) error
	// Roll changes the group's release and waits for the rollout.
	Roll func(context.Context) error
}

// LoseCoordinators takes a backup, deletes the CVMs of all coordinators with their disks, restores
// the backup, accepts the restore, and rolls the group. The load must be stopped by the caller.
func (r *Rig) LoseCoordinators(ctx context.Context, n *Narrator, d Lost) (report LostReport, err error) {
	backup := filepath.Join(r.State, "demo.backup")
	from := time.Now()
	n.Say("backing up the records: cadre cluster backup")
	if _, err := r.Cadre(ctx, "cluster", "backup", "-o", backup, "--force"); err != nil {
		return report, err
	}
	report.BackupS = time.Since(from).Seconds()
	whole, err := os.ReadFile(backup)
	if err != nil {
		return report, err
	}
	report.BackupBytes = len(whole)
	if d.Since != nil {
		n.Say("making a change that the backup lacks")
		if err := d.Since(ctx); err != nil {
			return report, err
		}
	}
	boots, err := r.boots(ctx, d.Group)
	if err != nil {
		return report, err
	}
	id, err := r.clusterIDNow(ctx)
	if err != nil {
		return report, err
	}
	lost := time.Now()
	n.Say("deleting the CVMs of all coordinators, with their disks")
	if err := r.deleteCoordinators(ctx); err != nil {
		return report, err
	}
	if err := r.tryRefused(ctx, n, d, &report, whole); err != nil {
		return report, err
	}
	n.Say("restoring the backup: cadre cluster restore")
	if report.Restored, err = r.restoreCluster(ctx, d, backup); err != nil {
		return report, err
	}
	report.RestoredS = time.Since(lost).Seconds()
	r.hangUp()
	if report.Halted, err = r.awaitHalt(ctx, true); err != nil {
		return report, err
	}
	now, err := r.clusterIDNow(ctx)
	if err != nil {
		return report, err
	}
	report.SameClusterID = now == id
	n.Say("halted, under the same cluster ID: %s", report.Halted)
	if d.Repeat != nil {
		n.Say("repeating the change that the backup lacks")
		if err := d.Repeat(ctx); err != nil {
			return report, err
		}
	}
	n.Say("going on: cadre cluster accept-restore --yes")
	if err := r.acceptRestore(ctx); err != nil {
		return report, err
	}
	if d.SinceSlot != "" {
		n.Say("adopting %s, which was made after the backup", d.SinceSlot)
		if err := r.adopt(ctx, d.Group, d.SinceSlot); err != nil {
			return report, err
		}
		report.Adopted = d.SinceSlot
	}
	if err := again(ctx, func(ctx context.Context) error { return r.allAvailable(ctx, d.Group) }); err != nil {
		return report, fmt.Errorf("wait for %s: %w", d.Group, err)
	}
	report.WholeS = time.Since(lost).Seconds()
	after, err := r.boots(ctx, d.Group)
	if err != nil {
		return report, err
	}
	for slot, boot := range after {
		if boots[slot] != boot {
			report.Rebooted = append(report.Rebooted, slot)
		}
	}
	n.Say("%s is whole; rolling it to another release", d.Group)
	if err := d.Roll(ctx); err != nil {
		return report, err
	}
	report.RolledS = time.Since(lost).Seconds()
	return report, report.Check()
}

func (r *Rig) clusterIDNow(ctx context.Context) (string, error) {
	c, err := r.Client()
	if err != nil {
		return "", err
	}
	info, err := c.Cluster(ctx)
	return info.GetClusterId(), err
}

func (r *Rig) deleteCoordinators(ctx context.Context) error {
	cvms, err := r.CVMs(ctx)
	if err != nil {
		return err
	}
	for ordinal := range Coordinators {
		name := r.PlatformName(group.SlotName("coordinator", ordinal))
		if err := r.LoseCVM(ctx, cvms[name].VMUUID); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	// The platform lists a deleted CVM for a moment.
	return again(ctx, func(ctx context.Context) error {
		cvms, err := r.CVMs(ctx)
		if _, there := cvms[r.PlatformName("coordinator-0")]; err == nil && there {
			err = errors.New("the platform still lists coordinators")
		}
		return err
	})
}

// tryRefused tries files that no restore may take.
func (r *Rig) tryRefused(ctx context.Context, n *Narrator, d Lost, report *LostReport, whole []byte) error {
	header, rest, _ := bytes.Cut(whole, []byte{'\n'})
	id := header[bytes.Index(header, []byte(`"cluster_id":"`))+len(`"cluster_id":"`):][:32]
	before, err := r.Calls(ctx)
	if err != nil {
		return err
	}
	report.Refused = map[string]string{}
	for name, text := range map[string][]byte{
		"another cluster's":   bytes.ReplaceAll(whole, id, bytes.Repeat([]byte("ab"), 16)),
		"truncated":           whole[:len(whole)*2/3],
		"of an older version": append(bytes.Replace(header, []byte(`"version":1`), []byte(`"version":0`), 1), append([]byte{'\n'}, rest...)...),
	} {
		if report.Refused[name], err = r.restoreRefused(ctx, d, text); err != nil {
			return fmt.Errorf("a file that is %s: %w", name, err)
		}
		n.Say("refused, as it is %s: %s", name, tail(report.Refused[name], 120))
	}
	after, err := r.Calls(ctx)
	if err != nil {
		return err
	}
	report.RefusedCalls = len(after) - len(before)
	edited := bytes.Clone(whole)
	at := bytes.Index(edited, []byte(`"term":`)) + len(`"term":`)
	edited[at] = '0' + (edited[at]-'0')%9 + 1
	if report.Edited, err = r.restoreRefused(ctx, d, edited); err == nil && !strings.Contains(report.Edited, string(policy.CodeBackupMACMismatch)) {
		err = fmt.Errorf("an edited backup is refused for another reason: %s", report.Edited)
	}
	n.Say("refused by new coordinators, as it is edited: %s", tail(report.Edited, 120))
	return err
}

// restoreRefused restores a text and returns the error of the command.
func (r *Rig) restoreRefused(ctx context.Context, d Lost, text []byte) (string, error) {
	file := filepath.Join(r.State, "refused.backup")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	out, err := r.restoreCluster(ctx, d, file)
	if err == nil {
		return "", errors.New("it was restored")
	}
	return out, ctx.Err()
}

func (r *Rig) restoreCluster(ctx context.Context, d Lost, backup string) (string, error) {
	vars, err := r.ImageVars("coordinator")
	if err != nil {
		return "", err
	}
	args := append([]string{"cluster", "restore", "--context", r.ContextFile(), "--cluster-file", filepath.Join(r.Root, d.ClusterFile), "--var", "cloud=" + r.CloudFile()}, vars...)
	return r.Cadre(ctx, append(args, backup)...)
}

// acceptRestore accepts until nothing is halted: agents report the highest values that they saw one
// after the other.
func (r *Rig) acceptRestore(ctx context.Context) error {
	return patiently(ctx, func() error {
		if _, err := r.Cadre(ctx, "cluster", "accept-restore", "--yes", "--reason", "the drill restored a backup"); err != nil {
			return err
		}
		reason, _, err := r.halts(ctx)
		if err == nil && reason != "" {
			err = errors.New("still halted: " + reason)
		}
		return err
	})
}

// adopt binds a slot whose records the backup lacks.
func (r *Rig) adopt(ctx context.Context, name, slot string) error {
	return patiently(ctx, func() error {
		_, err := r.Cadre(ctx, "group", "adopt", name, "--slot", slot, "--reason", "made after the backup", "--confirm", name, "--wait")
		return err
	})
}

// patiently repeats a command that takes longer than a call.
func patiently(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(2 * time.Second):
		}
	}
}

// allAvailable asks for the instances as a coordinator sees them now; the status in a restored
// backup is old.
func (r *Rig) allAvailable(ctx context.Context, name string) error {
	c, err := r.Client()
	if err != nil {
		return err
	}
	list, err := c.Instances(ctx, name)
	if err != nil {
		return err
	}
	for _, i := range list {
		if i.State != "Available" || i.BootID == "" {
			return fmt.Errorf("%s is %s: %s", i.Slot, i.State, i.Reason)
		}
	}
	if len(list) == 0 {
		return errors.New("no instance is listed")
	}
	return nil
}

// LoadVerdict waits for writes, stops the load and looks for every acknowledged write.
func (r *Rig) LoadVerdict(ctx context.Context, n *Narrator, report *LostReport) error {
	if err := r.AwaitWrites(ctx, time.Now(), 200); err != nil {
		return err
	}
	n.Say("writes continue; stopping the load and reading its rows back")
	summary, err := r.LoadSummary(ctx, time.Time{}, time.Now())
	if err != nil {
		return err
	}
	verdict, err := r.StopLoad(ctx)
	if err != nil {
		return err
	}
	report.GapS, report.Verdict = summary.Gap.Seconds(), &verdict
	return report.Check()
}
