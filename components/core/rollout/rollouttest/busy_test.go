package rollouttest

import (
	"reflect"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// TestBusyHasWorkOfEveryKind: the benchmarks must measure a pass with every kind of work.
func TestBusyHasWorkOfEveryKind(t *testing.T) {
	for kind, limit := range map[string]string{group.WorkloadNone: rollout.HoldMaxUnavailable, group.WorkloadPatroni: rollout.HoldVoterCap} {
		p := Busy(200, kind).Decide()
		var began, held, going int
		for _, a := range p.Actions {
			switch {
			case a.Operation != "":
				going++
			case a.Execute:
				began++
			default:
				held++
			}
		}
		if p.Rollout.State != operation.Running || kind == group.WorkloadNone && began == 0 || going != 10 || held < 150 {
			t.Errorf("%s: %s, %d begin, %d go on, %d are held: %s", kind, p.Rollout.State, began, going, held, p.Message)
		}
		if s := p.Status; s.Available < 150 || s.Updated < 16 || len(p.Slots) != 200 {
			t.Errorf("%s: %d available, %d updated, %d records", kind, s.Available, s.Updated, len(p.Slots))
		}
		states := map[group.SlotState]int{}
		for _, i := range p.Status.Instances {
			states[i.State]++
		}
		for _, want := range []group.SlotState{
			group.SlotAvailable, group.SlotBooting, group.SlotJoining, group.SlotSettling, group.SlotDraining, group.SlotUpdating, group.SlotUnavailable, group.SlotMissing,
		} {
			if states[want] == 0 {
				t.Errorf("%s: no slot is %s: %v", kind, want, states)
			}
		}
		if !heldBy(p, limit) {
			t.Errorf("%s: nothing is held by %s", kind, limit)
		}
	}
}

func heldBy(p rollout.Plan, predicate string) bool {
	for _, a := range p.Actions {
		for _, h := range a.Holds {
			if h.Predicate == predicate {
				return true
			}
		}
	}
	return false
}

// TestAPlanDoesNotChangeItsInputs: a leader reuses its parsed records for planning as long as the records do not
// change.
func TestAPlanDoesNotChangeItsInputs(t *testing.T) {
	for _, kind := range []string{group.WorkloadNone, group.WorkloadPatroni} {
		world, before := Busy(200, kind), Busy(200, kind)
		world.Decide()
		if !reflect.DeepEqual(world, before) {
			t.Errorf("%s: a plan changes what it is made from", kind)
		}
	}
}

// TestStruckGroupsWait: the benchmarks' groups with many faults have no step that can begin.
func TestStruckGroupsWait(t *testing.T) {
	for name, c := range map[string]struct {
		world World
		holds []string
	}{
		"silent":    {Silent(60), nil},
		"failing":   {Failing(60), []string{rollout.HoldHealBackoff}},
		"scaled in": {ScaledIn(60), []string{rollout.HoldDeleteDisks}},
	} {
		p := c.world.Decide()
		for _, a := range p.Actions {
			if a.Execute {
				t.Errorf("%s: %s of %s begins", name, a.Kind, a.Slot)
			}
		}
		for _, hold := range c.holds {
			if !heldBy(p, hold) {
				t.Errorf("%s: nothing is held by %s", name, hold)
			}
		}
	}
	if silent := Silent(60); silent.Decide().Status.Available != 40 {
		t.Errorf("%d are available", silent.Decide().Status.Available)
	}
}
