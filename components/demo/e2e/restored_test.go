package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/demo/internal/rig"
)

// TestRestoredCoordinators puts the disks of all coordinators back to a backup that is
// older than the last rollout. Their Term is as high as what the agents saw, since each
// start takes the next one, and the new processes remember nothing: the agents alone know
// that the records went back. Nothing is planned or called until an operator says so, and
// then the group goes on (CTL-06).
func TestRestoredCoordinators(t *testing.T) {
	c := ready(t)
	folder := t.TempDir()
	backup := func(slot string) string { return filepath.Join(folder, slot) }
	cvms := c.look(t).cvms
	// The CVMs stay the same ones.
	disk := func(slot string) string {
		return filepath.Join(c.State, "cloud", "cvms", cvms[c.PlatformName(slot)].VMUUID, "disk")
	}
	c.withCoordinatorsDown(t, func() { copyDisks(t, disk, backup) })
	c.roll(t)
	before := c.look(t)
	c.withCoordinatorsDown(t, func() { copyDisks(t, backup, disk) })

	var found client.Recovery
	eventually(t, "the restore is noticed", 2*time.Minute, func(ctx context.Context) (err error) {
		if found, err = c.api.Recover(ctx, "", true); err == nil && found.Halted == "" {
			err = fmt.Errorf("nothing is halted: %+v", found)
		}
		return err
	})
	if found.Agents < 2 || found.Most.State <= found.Records.State || found.Done {
		t.Errorf("what is known: %+v", found)
	}
	for _, args := range [][]string{{"cluster", "status"}, {"recover"}} {
		out, err := c.Cadre(within(t, time.Minute), args...)
		t.Logf("$ cadre %s\n%s", strings.Join(args, " "), out)
		if err != nil || !strings.Contains(out, "EPOCH_REGRESSION") {
			t.Errorf("cadre %v: %v", args, err)
		}
	}
	c.apply(t)
	// A leader that planned would have begun by the second look.
	for range 2 {
		eventually(t, "the leader looks", time.Minute, func(ctx context.Context) error {
			now, err := c.api.Recover(ctx, "", true)
			if err == nil && now.Halted == "" {
				err = errors.New("it is not halted any more")
			}
			return err
		})
	}
	if calls, err := c.Calls(within(t, time.Minute)); err != nil || len(calls) != before.calls {
		t.Errorf("%d calls, %d before the restore, %v", len(calls), before.calls, err)
	}
	out, err := c.Cadre(within(t, time.Minute), "recover", "--reason", "backup of the coordinators was restored", "--yes")
	t.Logf("$ cadre recover --reason ... --yes\n%s", out)
	if err != nil || !strings.Contains(out, "recovered") {
		t.Fatalf("%v", err)
	}
	eventually(t, "a leader above everything that was seen", 2*time.Minute, func(ctx context.Context) error {
		info, err := c.api.Cluster(ctx)
		if err == nil && (info.GetTerm() <= before.term || info.GetHalted() != "" || info.GetLeader() == "") {
			err = fmt.Errorf("term %d, leader %q, halted %q", info.GetTerm(), info.GetLeader(), info.GetHalted())
		}
		return err
	})
	c.complete(t, rig.Light)
}

// withCoordinatorsDown ends all coordinators' CVMs, does something, and starts them again.
func (c *cluster) withCoordinatorsDown(t *testing.T, do func()) {
	t.Helper()
	for n := range rig.Coordinators {
		if err := c.Kill(within(t, time.Minute), c.PlatformName(coordinatorSlot(n))); err != nil {
			t.Fatal(err)
		}
	}
	do()
	for n := range rig.Coordinators {
		if err := c.Start(within(t, time.Minute), c.PlatformName(coordinatorSlot(n))); err != nil {
			t.Fatal(err)
		}
	}
	for n := range rig.Coordinators {
		c.awaitAnswer(t, coordinatorSlot(n))
	}
}

func coordinatorSlot(n int) string { return fmt.Sprintf("coordinator-%d", n) }

// copyDisks puts what is at from in place of what is at to, for each coordinator.
func copyDisks(t *testing.T, from, to func(slot string) string) {
	t.Helper()
	for n := range rig.Coordinators {
		source, target := from(coordinatorSlot(n)), to(coordinatorSlot(n))
		if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(target); err != nil {
			t.Fatal(err)
		}
		if err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(source, path)
			if err != nil {
				return err
			}
			return copyEntry(path, filepath.Join(target, name), d)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// copyEntry copies a folder or a file with its owner and mode; there is nothing else on
// the disk of a CVM that is down.
func copyEntry(from, to string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	switch {
	case d.IsDir():
		err = os.MkdirAll(to, 0o700)
	case d.Type().IsRegular():
		var content []byte
		if content, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, content, 0o600)
		}
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := os.Lchown(to, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	return os.Chmod(to, info.Mode())
}
