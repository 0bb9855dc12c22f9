package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// TestOwnHosts runs a cluster on two hosts with dstack-vmm: its members are spread over them, a rollout
// restarts each CVM once, a host that does not answer hides its members and removes none, a host that
// lost its power comes back with all of them, and a stopped group starts again on its disks.
func TestOwnHosts(t *testing.T) {
	c := deployOnHosts(t)
	nodes := map[string][]string{}
	for slot, i := range c.members(t) {
		nodes[i.Node] = append(nodes[i.Node], slot)
	}
	if len(nodes) != 2 || len(nodes["host-a"]) == 0 || len(nodes["host-b"]) == 0 {
		t.Fatalf("the members are on %v, want both hosts", nodes)
	}

	t.Run("a rollout restarts each CVM once", func(t *testing.T) {
		before := c.bootCounts(t)
		c.roll(t)
		for cvm, n := range c.bootCounts(t) {
			if n != before[cvm]+1 {
				t.Errorf("%s booted %d times, want once", cvm, n-before[cvm])
			}
		}
	})

	t.Run("a host that does not answer hides its members", func(t *testing.T) {
		was, before := c.members(t), c.bootCounts(t)
		if err := c.Fault(within(t, 10*time.Second), "host", "host-b", "hang"); err != nil {
			t.Fatal(err)
		}
		c.apply(t)
		// Members on a silent host count as unavailable, so the rollout takes no other member away.
		eventually(t, "the status names the host", rollTime, func(ctx context.Context) error {
			v, err := c.api.Group(ctx, rig.Light)
			if err != nil {
				return err
			}
			if !strings.Contains(everyWord(v), "node host-b does not answer") {
				return errors.New("the status does not name the host: " + everyWord(v))
			}
			return nil
		})
		if err := c.Fault(within(t, 10*time.Second), "host", "host-b", "up"); err != nil {
			t.Fatal(err)
		}
		c.complete(t, rig.Light)
		c.sameCVMs(t, was)
		for cvm, n := range c.bootCounts(t) {
			if n != before[cvm]+1 {
				t.Errorf("%s booted %d times, want once", cvm, n-before[cvm])
			}
		}
	})

	t.Run("a host without power loses no member", func(t *testing.T) {
		was, before := c.members(t), c.bootCounts(t)
		if err := c.Fault(within(t, 10*time.Second), "host", "host-b", "kill"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the members of host-b are unknown", rollTime, func(ctx context.Context) error {
			for slot, i := range c.members(t) {
				if was[slot].Node == "host-b" && i.State == client.StateAvailable {
					return fmt.Errorf("%s is %s", slot, i.State)
				}
			}
			return nil
		})
		if err := c.Fault(within(t, 10*time.Second), "host", "host-b", "return"); err != nil {
			t.Fatal(err)
		}
		if err := c.api.Wait(within(t, rollTime), rig.Light, client.WaitOptions{}); err != nil {
			t.Fatal(err)
		}
		c.sameCVMs(t, was)
		for cvm, n := range c.bootCounts(t) {
			slot := strings.TrimPrefix(cvm, "demo-")
			if want := before[cvm] + btoi(was[slot].Node == "host-b"); n != want {
				t.Errorf("%s booted %d times since the host lost its power, want %d", cvm, n-before[cvm], want-before[cvm])
			}
		}
		for _, op := range c.operations(t) {
			if op.Kind != operation.Create && op.Kind != operation.Update {
				t.Errorf("a member got %s %s: %s", op.Kind, op.ID, op.Reason)
			}
		}
	})

	t.Run("a stopped group keeps its disks", func(t *testing.T) {
		was, before := c.members(t), c.bootCounts(t)
		if _, err := c.Cadre(within(t, rollTime), "group", "stop", rig.Light, "--confirm", rig.Light, "--wait"); err != nil {
			t.Fatal(err)
		}
		for slot, i := range c.members(t) {
			if i.State != group.SlotStopped {
				t.Errorf("%s is %s, want %s", slot, i.State, group.SlotStopped)
			}
		}
		cvms, err := c.CVMs(within(t, 20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for _, slot := range slots(rig.Light) {
			if name := c.PlatformName(slot); len(cvms[name].Services) > 0 && cvms[name].Status == "running" {
				t.Errorf("%s is %s on its host", name, cvms[name].Status)
			}
		}
		if _, err := c.Cadre(within(t, rollTime), "group", "start", rig.Light, "--wait"); err != nil {
			t.Fatal(err)
		}
		c.sameCVMs(t, was)
		for cvm, n := range c.bootCounts(t) {
			if n != before[cvm]+1 {
				t.Errorf("%s booted %d times, want once", cvm, n-before[cvm])
			}
		}
	})
}

// deployOnHosts starts a cloud of two hosts with the light cluster, and removes it with the test.
func deployOnHosts(t *testing.T) *cluster {
	t.Helper()
	root := need(t)
	out := filepath.Join(root, ".out")
	if err := os.MkdirAll(out, 0o750); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(out, "e2e-hosts.log"))
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(out, "e2e-hosts")
	c := &cluster{Rig: rig.New(root, state, bootDelay, log), logs: state + " and " + log.Name()}
	c.Platform = group.PlatformVMM
	ctx := within(t, deployTime)
	if err := c.Down(ctx); err != nil { // of a run that was killed
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		end := c.Down
		if t.Failed() {
			t.Logf("logs are in %s", c.logs)
			end = c.Halt
		}
		if err := end(ctx); err != nil {
			t.Error(err)
		}
		_ = log.Close()
	})
	if err := c.Up(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateLightCluster(ctx); err != nil {
		t.Fatal(err)
	}
	if c.api, err = c.Client(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ApplyLight(ctx, c.LightFile(), c.next()); err != nil {
		t.Fatal(err)
	}
	c.complete(t, rig.Light)
	return c
}

// members are the group's Slots.
func (c *cluster) members(t *testing.T) map[string]group.InstanceStatus {
	t.Helper()
	list, err := c.api.Instances(within(t, 20*time.Second), rig.Light)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]group.InstanceStatus{}
	for _, i := range list {
		out[i.Slot] = i
	}
	return out
}

// bootCounts counts the boots of each member's CVM, as its host does.
func (c *cluster) bootCounts(t *testing.T) map[string]int {
	t.Helper()
	cvms, err := c.CVMs(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, slot := range slots(rig.Light) {
		name := c.PlatformName(slot)
		out[name] = cvms[name].Boots
	}
	return out
}

// sameCVMs reports members that have another CVM or node than before.
func (c *cluster) sameCVMs(t *testing.T, before map[string]group.InstanceStatus) {
	t.Helper()
	for slot, now := range c.members(t) {
		if was := before[slot]; now.VMUUID != was.VMUUID || now.InstanceID != was.InstanceID || now.Node != was.Node {
			t.Errorf("%s has CVM %s on %s, want %s on %s", slot, now.VMUUID, now.Node, was.VMUUID, was.Node)
		}
	}
}

// operations are those of every member.
func (c *cluster) operations(t *testing.T) (out []operation.Operation) {
	t.Helper()
	for _, slot := range slots(rig.Light) {
		i, err := c.api.Instance(within(t, 20*time.Second), slot)
		if err != nil {
			t.Fatal(err)
		}
		out = slices.Concat(out, i.Operations)
	}
	return out
}

// everyWord joins the texts of a group's status.
func everyWord(v client.Group) string {
	words := []string{v.Status.Message}
	for _, c := range v.Status.Conditions {
		words = append(words, c.Message)
	}
	for _, i := range v.Status.Instances {
		words = append(words, i.Reason)
	}
	return strings.Join(words, "; ")
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
