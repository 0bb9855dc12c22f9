package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/demo/internal/rig"
)

// TestLostCVMIsReplaced deletes a member's CVM on the platform, without Cadre. No new CVM is made
// without an operator's request (R134). After the request the slot gets a new CVM with a new
// binding, the old one is never admitted again, and the record has the operator and the reason.
// TestDemoPath shows with a database that the data returns and no write is lost.
func TestLostCVMIsReplaced(t *testing.T) {
	c := ready(t)
	slot := slots(rig.Light)[1]
	name := c.PlatformName(slot)
	before := c.look(t)
	old := before.cvms[name]
	if err := c.cloud.Delete(within(t, time.Minute), old.VMUUID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loss is told", time.Minute, func(ctx context.Context) error {
		described, err := c.api.Instance(ctx, slot)
		if err == nil && described.Status.State != "Vanished" {
			err = fmt.Errorf("%s is %s: %s", slot, described.Status.State, described.Status.Reason)
		}
		return err
	})
	c.wantHeld(t, slot, rollout.HoldInstanceMissing)

	// Without a word that it is meant nothing happens.
	out, err := c.Cadre(within(t, time.Minute), "instance", "replace", slot, "--reason", "its host burnt")
	if exitCode(err) == 0 || !strings.Contains(out, "lost permanently") || !strings.Contains(out, "--confirm "+slot) {
		t.Errorf("a replacement that is not confirmed: %v\n%s", err, out)
	}
	c.wantHeld(t, slot, rollout.HoldInstanceMissing)
	if n := c.creations(t, name, before.calls); n != 0 {
		t.Fatalf("%d CVMs were made for %s without an operator's word", n, slot)
	}

	out, err = c.Cadre(within(t, rollTime), "instance", "replace", slot, "--reason", "its host burnt", "--confirm", slot, "--wait", "--timeout", rollTime.String())
	if err != nil {
		t.Fatalf("replace %s: %v\n%s", slot, err, out)
	}
	if err := c.api.Wait(within(t, rollTime), rig.Light, client.WaitOptions{}); err != nil {
		t.Fatalf("the group is not whole again: %v", err)
	}
	if n := c.creations(t, name, before.calls); n != 1 {
		t.Errorf("%d CVMs were made for %s, want one", n, slot)
	}
	described, err := c.api.Instance(within(t, time.Minute), slot)
	if err != nil {
		t.Fatal(err)
	}
	is := described.Status
	if is.State != "Available" || is.VMUUID == old.VMUUID || is.InstanceID == old.InstanceID || is.InstanceID == "" {
		t.Errorf("%s is %s on CVM %s, instance %s; it was on %s, %s", slot, is.State, is.VMUUID, is.InstanceID, old.VMUUID, old.InstanceID)
	}
	if len(described.Lineage) != 1 || described.Lineage[0].InstanceID != old.InstanceID || described.Lineage[0].Why == "" {
		t.Errorf("the CVMs before are %+v, want instance %s alone, and why it went", described.Lineage, old.InstanceID)
	}
	c.wantOthersUntouched(t, slot, before)
	c.wantOnlyIn(t, slot, is.InstanceID, old.InstanceID)
	i := slices.IndexFunc(described.Operations, func(o operation.Operation) bool { return o.Kind == operation.Replace })
	if i < 0 {
		t.Fatalf("no record of the replacement: %+v", described.Operations)
	}
	if o := described.Operations[i]; o.Phase != operation.Done || o.Actor != operation.ActorOperator || o.Request.Note != "its host burnt" || o.Request.By == "" || o.Rollout != "" {
		t.Errorf("the record of the replacement does not say who wanted it and why: %+v", o)
	}
}

// wantHeld checks that the plan makes nothing for a slot, by that rule.
func (c *cluster) wantHeld(t *testing.T, slot, rule string) {
	t.Helper()
	plan, err := c.api.Plan(within(t, 30*time.Second), rig.Light, nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(plan.Actions, func(a rollout.Action) bool { return a.Slot == slot })
	if i < 0 {
		t.Fatalf("the plan says nothing of %s: %+v", slot, plan.Actions)
	}
	a := plan.Actions[i]
	if a.Execute || !slices.ContainsFunc(a.Holds, func(h rollout.Hold) bool { return h.Predicate == rule }) {
		t.Errorf("the plan for %s is %+v, want it held by %s", slot, a, rule)
	}
}

// creations counts the CVMs of a name that were made since a number of calls.
func (c *cluster) creations(t *testing.T, name string, since int) (n int) {
	t.Helper()
	calls, err := c.Calls(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls[since:] {
		made := call.Method == http.MethodPost && (strings.HasSuffix(call.Path, "/cvms") || strings.HasSuffix(call.Path, "/instances"))
		if made && call.CVM == name && call.Executed/100 == 2 {
			n++
		}
	}
	return n
}

// wantOthersUntouched checks that the other slots are the same CVMs on the same boots.
func (c *cluster) wantOthersUntouched(t *testing.T, slot string, before sight) {
	t.Helper()
	after := c.look(t)
	for _, other := range slots(rig.Light) {
		was, is := before.cvms[c.PlatformName(other)], after.cvms[c.PlatformName(other)]
		if other != slot && (is.VMUUID != was.VMUUID || is.Boots != was.Boots) {
			t.Errorf("%s was touched: CVM %s with %d boots, was %s with %d", other, is.VMUUID, is.Boots, was.VMUUID, was.Boots)
		}
	}
}

// wantOnlyIn checks that one instance holds a slot and is bound to it, and that no policy of the
// slot names the former one.
func (c *cluster) wantOnlyIn(t *testing.T, slot, instance, before string) {
	t.Helper()
	told, err := c.api.ExplainAdmission(within(t, 30*time.Second), slot)
	if err != nil {
		t.Fatal(err)
	}
	if told.State != policy.StateAdmitted || told.InstanceID != instance || told.BoundInstance != instance {
		t.Errorf("%s is %s, held by instance %s and bound to %s; want %s, not %s", slot, told.State, told.InstanceID, told.BoundInstance, instance, before)
	}
}
