package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"cadre.dev/demo/internal/rig"
)

// boots are the Boots that hold the Slots of the shared group, by Slot.
func (c *cluster) boots(ctx context.Context) (map[string]string, error) {
	list, err := c.api.Instances(ctx, rig.Light)
	out := map[string]string{}
	for _, i := range list {
		if i.BootID != "" {
			out[i.Slot] = i.BootID
		}
	}
	return out, err
}

// consul runs Consul's own tool with every right, which only the coordinators have.
func (c *cluster) consul(t *testing.T, command string, args ...string) {
	t.Helper()
	if err := c.Consul(within(t, time.Minute), "coordinator-0", command, args...); err != nil {
		t.Fatal(err)
	}
}

// TestLostRecordsAreAdopted: every record of a running group's members is gone. The CVMs keep
// running; the command lists their agents' evidence, an operator adopts it, and the same Boots are
// the members again.
func TestLostRecordsAreAdopted(t *testing.T) {
	c := ready(t)
	before := c.look(t)
	was, err := c.boots(within(t, 30*time.Second))
	if err != nil || len(was) != 3 {
		t.Fatalf("boots %v, %v", was, err)
	}
	for _, prefix := range []string{"slots/" + rig.Light + "/", "policy/slots/" + rig.Light + "-", "admissions/" + rig.Light + "-"} {
		c.consul(t, "kv delete", "-recurse", "cadre/v1/"+prefix)
	}
	lost := time.Now()
	eventually(t, "every agent attests", rollTime, func(ctx context.Context) error {
		list, err := c.api.Adoptable(ctx, rig.Light)
		if err != nil {
			return err
		}
		if len(list) != 3 {
			return fmt.Errorf("%d slots are unbound", len(list))
		}
		for _, m := range list {
			if m.Missing != "" {
				return fmt.Errorf("%s: %s", m.Slot, m.Missing)
			}
		}
		return nil
	})
	t.Logf("every agent attested %v after the loss", time.Since(lost).Round(time.Second))
	if out, err := c.Cadre(within(t, time.Minute), "group", "adopt", rig.Light); exitCode(err) != 2 || !strings.Contains(out, "can be adopted") {
		t.Errorf("without a confirmation: %v\n%s", err, out)
	}
	if is := c.look(t); is.calls != before.calls {
		t.Errorf("%d platform calls while the records were lost", is.calls-before.calls)
	}

	asked := time.Now()
	out, err := c.Cadre(within(t, rollTime), "group", "adopt", rig.Light, "--reason", "a test of lost records", "--confirm", rig.Light, "--wait")
	t.Logf("adopted in %v:\n%s", time.Since(asked).Round(time.Millisecond), out)
	if err != nil {
		t.Fatal(err)
	}
	now, err := c.boots(within(t, 30*time.Second))
	if err != nil || !maps.Equal(now, was) {
		t.Errorf("other boots hold the slots: %v, were %v, %v", now, was, err)
	}
	c.wantUpdates(t, rig.Light, before, map[string]int{})
	if is := c.look(t); is.calls != before.calls {
		t.Errorf("%d platform calls for the adoption", is.calls-before.calls)
	}
	// It is a group like any other again.
	rolled := c.look(t)
	c.roll(t)
	c.wantOneUpdateEach(t, rig.Light, rolled)
}
