package e2edemo

import (
	"context"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// checkLostCVM deletes a standby's CVM with its disk under load, without Cadre, and replaces it
// like an operator: the new one is rebuilt from the leader, on an empty disk, and writes continue
// meanwhile. checkPowerLoss checks in the end that no write is missing.
func checkLostCVM(ctx context.Context, t *testing.T, r *rig.Rig, n *rig.Narrator) {
	t.Helper()
	c, err := r.Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(ctx, rig.Postgres, client.WaitOptions{}); err != nil {
		t.Fatalf("the group is not whole: %v", err)
	}
	old := follower(ctx, t, c)
	n.Say("deleting the CVM of %s on the platform, past Cadre", old.Slot)
	if err := r.LoseCVM(ctx, old.VMUUID); err != nil {
		t.Fatal(err)
	}
	awaitState(ctx, t, c, old.Slot, "Vanished")
	if err := r.AwaitWrites(ctx, time.Now(), 50); err != nil {
		t.Fatalf("writes do not go on without %s: %v", old.Slot, err)
	}
	lost, err := r.LoadSummary(ctx, time.Time{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}

	n.Say("replacing %s", old.Slot)
	out, err := r.Cadre(ctx, "instance", "replace", old.Slot, "--reason", "its host burnt", "--confirm", old.Slot, "--wait", "--timeout", "4m")
	if err != nil {
		t.Fatalf("replace %s: %v\n%s", old.Slot, err, out)
	}
	if err := c.Wait(ctx, rig.Postgres, client.WaitOptions{}); err != nil {
		t.Fatalf("the group is not whole again: %v", err)
	}
	is, err := c.Instance(ctx, old.Slot)
	if err != nil {
		t.Fatal(err)
	}
	if is.Status.InstanceID == old.InstanceID || is.Status.VMUUID == old.VMUUID {
		t.Errorf("%s is still CVM %s, instance %s", old.Slot, is.Status.VMUUID, is.Status.InstanceID)
	}
	if r.DiskKept(ctx, old.Slot) {
		t.Errorf("the disk of %s is the one that was lost", old.Slot)
	}
	rows, standby, err := r.Rows(ctx, old.Slot)
	if err != nil {
		t.Fatal(err)
	}
	if rows < lost.Acknowledged || !standby {
		t.Errorf("%s has %d rows, standby %t; %d writes were acknowledged before it was replaced", old.Slot, rows, standby, lost.Acknowledged)
	}
	n.Say("%s is a standby again with %d rows, %d were acknowledged before", old.Slot, rows, lost.Acknowledged)
}

// follower is a member of the database that does not lead.
func follower(ctx context.Context, t *testing.T, c *client.Client) group.InstanceStatus {
	t.Helper()
	list, err := c.Instances(ctx, rig.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if i.Role == "follower" {
			return i
		}
	}
	t.Fatalf("no member follows: %+v", list)
	return group.InstanceStatus{}
}

// awaitState follows the database until a Slot is in a state.
func awaitState(ctx context.Context, t *testing.T, c *client.Client, slot string, state group.SlotState) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	last := group.InstanceStatus{}
	err := c.Watch(limited, rig.Postgres, 0, func(v client.View) (bool, error) {
		for _, i := range v.Status.Instances {
			if i.Slot == slot {
				last = i
			}
		}
		return last.State != state, nil
	}, nil)
	if err != nil {
		t.Fatalf("%s is %s: %s; want %s: %v", slot, last.State, last.Reason, state, err)
	}
}

// checkDestroyedCVM deletes a standby's CVM with its disk under load, without Cadre, in a group
// whose spec permits healing to replace it: no operator is asked.
func checkDestroyedCVM(ctx context.Context, t *testing.T, r *rig.Rig, n *rig.Narrator) {
	t.Helper()
	c, err := r.Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ApplyPostgres(ctx, "a", "--var", "replace=auto"); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(ctx, rig.Postgres, client.WaitOptions{}); err != nil {
		t.Fatalf("the group is not whole: %v", err)
	}
	old := follower(ctx, t, c)
	n.Say("destroying the CVM of %s: nobody replaces it", old.Slot)
	from := time.Now()
	if err := r.LoseCVM(ctx, old.VMUUID); err != nil {
		t.Fatal(err)
	}
	back, err := r.AwaitHealed(ctx, old.Slot, "its CVM was destroyed", from)
	if err != nil {
		t.Fatal(err)
	}
	n.Healing(back)
	is, err := c.Instance(ctx, old.Slot)
	if err != nil {
		t.Fatal(err)
	}
	if back.Kind != string(operation.Replace) || is.Status.VMUUID == old.VMUUID || is.Status.InstanceID == old.InstanceID {
		t.Errorf("%s came back by %s, as CVM %s, instance %s", old.Slot, back.Kind, is.Status.VMUUID, is.Status.InstanceID)
	}
	if rows, standby, err := r.Rows(ctx, old.Slot); err != nil || !standby || rows == 0 {
		t.Errorf("%s has %d rows, standby %t: %v", old.Slot, rows, standby, err)
	}
}
