package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// heardOf are the last reports by Slot.
type heardOf map[string]reports.Received

func (h heardOf) Of(slot string) (reports.Received, bool) {
	r, ok := h[slot]
	return r, ok
}

// crowd is a group "db" with many Slots.
type crowd struct {
	*view.View
	heardOf
	now time.Time
}

func newCrowd() *crowd {
	return &crowd{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), heardOf: heardOf{}, View: &view.View{
		Slots: map[string]view.Rec[group.SlotRecord]{}, Operations: map[string]view.Rec[operation.Operation]{}, Admissions: map[string]view.Rec[policy.Admission]{},
		Instances: map[string]view.Rec[group.InstanceStatus]{}, Boots: map[string]view.Boot{}, Overrides: map[store.OverrideKind]map[string]view.Rec[store.Override]{store.OverrideDrain: {}, store.OverrideExclude: {}},
		Accepted: map[string]view.Accepted{"db": {Value: group.Spec{Name: "db", Replicas: 9}}},
	}}
}

// add adds a Slot whose CVM runs and whose agent last reported some time ago.
func (c *crowd) add(ago time.Duration) (slot string) {
	n := len(c.Slots)
	slot = fmt.Sprintf("db-%d", n)
	c.Slots[slot] = view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: "db", Slot: slot, Ordinal: n}}
	c.Admissions[slot] = view.Rec[policy.Admission]{Value: policy.Admission{Slot: slot, BootID: "boot-" + slot}}
	c.Instances[slot] = view.Rec[group.InstanceStatus]{Value: group.InstanceStatus{Slot: slot, PlatformStatus: "running"}}
	c.heardOf[slot] = reports.Received{BootID: "boot-" + slot, At: c.now.Add(-ago)}
	return slot
}

// silent adds a Slot whose agent is silent since then, and down one whose CVM stopped.
func (c *crowd) silent(since time.Duration) string {
	slot := c.add(since)
	record := c.Slots[slot]
	record.Value.SilenceFrom = c.now.Add(-since)
	c.Slots[slot] = record
	return slot
}

func (c *crowd) down(since time.Duration) string {
	slot := c.silent(since)
	c.Instances[slot] = view.Rec[group.InstanceStatus]{Value: group.InstanceStatus{Slot: slot, PlatformStatus: "stopped"}}
	return slot
}

// The fleet has the expected members: reporting, silent or down, each with the time since when.
func TestTheFleetHasTheExpectedMembers(t *testing.T) {
	c := newCrowd()
	c.add(time.Second)
	c.add(time.Second)
	c.silent(time.Minute)
	c.down(time.Hour)
	vanished := c.silent(2 * time.Hour)
	c.Instances[vanished] = view.Rec[group.InstanceStatus]{Value: group.InstanceStatus{Slot: vanished, State: "Vanished"}}
	other := c.add(time.Second) // of an earlier Boot
	c.heardOf[other] = reports.Received{BootID: "another", At: c.now}
	left := c.silent(time.Minute)
	c.Boots[left] = view.Boot{BootLease: store.BootLease{BootID: "boot-" + left, State: store.LeaseEnded}}
	f := fleet(c.View, c, c.now)
	if f.Expected != 4 || f.Heard != 2 || f.Down != 2 || !slices.Equal(f.Silences, []time.Time{c.now.Add(-time.Minute)}) {
		t.Errorf("%+v", f)
	}
	slices.SortFunc(f.Downs, func(a, b []time.Time) int { return a[0].Compare(b[0]) })
	if want := [][]time.Time{{c.now.Add(-2 * time.Hour)}, {c.now.Add(-time.Hour)}}; !slices.EqualFunc(f.Downs, want, slices.Equal) {
		t.Errorf("down since %v, want %v", f.Downs, want)
	}
}

// The unhealthy members are out of service while their CVMs run, in a group with healing. The start
// of a stopped CVM is no repair for the limiter.
func TestTheUnhealthyAreCounted(t *testing.T) {
	c := newCrowd()
	heals := c.Accepted["db"]
	heals.Value.AutoHealing = &group.AutoHealing{}
	c.Accepted["db"], c.Accepted["other"] = heals, view.Accepted{Value: group.Spec{Name: "other", Replicas: 9}}
	since := c.now.Add(-time.Minute)
	ill := func(slot, of string) string {
		record := c.Slots[slot]
		record.Value.Group, record.Value.UnavailableSince = of, since
		c.Slots[slot] = record
		return slot
	}
	c.add(time.Second)
	one := ill(c.add(time.Second), "db")
	ill(c.add(time.Second), "other")
	drained := ill(c.add(time.Second), "db")
	c.Overrides[store.OverrideDrain][drained] = view.Rec[store.Override]{Value: store.Override{}}
	silent := ill(c.silent(time.Minute), "db")
	down := ill(c.down(time.Minute), "db")
	rated := c.Slots[down]
	rated.Value.Heals = &group.Heals{Attempts: 2, LastAt: c.now, RatedAt: since}
	c.Slots[down] = rated
	restarted := ill(c.silent(time.Minute), "db")
	c.Operations[restarted] = view.Rec[operation.Operation]{Value: operation.Operation{ID: restarted, Group: "db", Slot: restarted, Actor: operation.ActorHealing, Phase: operation.Booting}}
	f := fleet(c.View, c, c.now)
	slices.SortFunc(f.Unhealthy, func(a, b rollout.UnhealthyMember) int { return strings.Compare(a.Slot, b.Slot) })
	if !slices.Equal(f.Unhealthy, []rollout.UnhealthyMember{{Slot: one, Since: since}, {Slot: silent, Since: since}, {Slot: restarted, Since: since}}) || !f.RepairedAt.Equal(since) {
		t.Errorf("%+v, repaired at %s", f.Unhealthy, f.RepairedAt)
	}
	records := []group.SlotRecord{c.Slots["db-0"].Value}
	if asksOfOthers(heals.Value, records, rollout.Observation{}) {
		t.Error("a group that is well asks of the others")
	}
	failing := rollout.Observation{Slots: []rollout.SlotObservation{{Report: &rollout.Report{Failing: []string{"ready"}}}}}
	if !asksOfOthers(heals.Value, records, failing) || asksOfOthers(group.Spec{}, records, failing) {
		t.Error("a group with healing does not ask for the others as soon as a check fails, or a group without it asks")
	}
	records = append(records, c.Slots[one].Value)
	if !asksOfOthers(heals.Value, records, rollout.Observation{}) || asksOfOthers(group.Spec{}, records, rollout.Observation{}) {
		t.Error("a group with a repair does not ask for the others, or a group without one asks")
	}
}

// A Slot in a rollout's step, drained, or excluded from healing does not count as missing. A Slot
// under repair still counts.
func TestExcludedSlotsAreNoStorm(t *testing.T) {
	step := func(actor operation.Actor, phase operation.Phase) func(c *crowd, slot string) {
		return func(c *crowd, slot string) {
			c.Operations[slot] = view.Rec[operation.Operation]{Value: operation.Operation{ID: slot, Group: "db", Slot: slot, Actor: actor, Phase: phase}}
		}
	}
	drain := func(until time.Duration) func(c *crowd, slot string) {
		return func(c *crowd, slot string) {
			override := store.Override{}
			if until != 0 {
				override.Until = c.now.Add(until)
			}
			c.Overrides[store.OverrideDrain][slot] = view.Rec[store.Override]{Value: override}
		}
	}
	exclude := func(from string) func(c *crowd, slot string) {
		return func(c *crowd, slot string) {
			c.Overrides[store.OverrideExclude][slot] = view.Rec[store.Override]{Value: store.Override{From: []string{from}}}
		}
	}
	for name, one := range map[string]struct {
		does   func(c *crowd, slot string)
		counts bool
	}{
		"nothing of it":          {func(*crowd, string) {}, true},
		"in a rollout's step":    {step(operation.ActorRollout, operation.Booting), false},
		"in a person's step":     {step(operation.ActorOperator, operation.Acting), false},
		"in healing's step":      {step(operation.ActorHealing, operation.Booting), true},
		"after a step":           {step(operation.ActorRollout, operation.Done), true},
		"drained":                {drain(0), false},
		"drained for a while":    {drain(time.Minute), false},
		"drained until just now": {drain(-time.Second), true},
		"excluded from healing":  {exclude(group.FromHealing), false},
		"excluded from rollout":  {exclude(group.FromRollout), true},
		"left out of healing": {func(c *crowd, _ string) {
			spec := c.Accepted["db"]
			spec.Value.Instances = []group.InstanceSettings{{Ordinal: 0, ExcludeFromHealing: true}, {Ordinal: 1, ExcludeFromHealing: true}, {Ordinal: 2, ExcludeFromHealing: true}}
			c.Accepted["db"] = spec
		}, false},
	} {
		c := newCrowd()
		for _, slot := range []string{c.down(time.Minute), c.silent(time.Minute), c.add(time.Second)} {
			one.does(c, slot)
		}
		want := rollout.Fleet{Expected: 1, Heard: 1}
		if one.counts {
			want.Expected, want.Down = 2, 1
		}
		if f := fleet(c.View, c, c.now); f.Expected != want.Expected || f.Heard != want.Heard || f.Down != want.Down {
			t.Errorf("%s: %+v, want %+v", name, f, want)
		}
	}
}
