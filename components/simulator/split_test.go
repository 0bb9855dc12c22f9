package simulator_test

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/raced"
	"cadre.dev/simulator"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// TestASplitHealsNoMember: a third of a fleet is silent for half an hour, where healing may replace.
// No step begins, since the leader itself may be disconnected. A single silent member would be
// restarted.
func TestASplitHealsNoMember(t *testing.T) {
	if raced.Enabled {
		t.Skip("half an hour of a fleet, twice: the fast lane runs it, and other plans begin the same goroutines")
	}
	p := read(t, "testdata/split.plan")
	out, broken := simulator.Judge(t, p)
	if len(broken) > 0 {
		t.Errorf("%s", simulator.Explain(p, out, broken))
	}
	if begun := healed(out); len(begun) > 0 {
		t.Errorf("begun in a split: %v", begun)
	}
	for i, f := range p.Faults {
		if f.Kind == plan.Split {
			p.Faults[i].Kind, p.Faults[i].Target = plan.Mute, "app-3"
		}
	}
	if out, _ = simulator.Judge(t, p); !slices.Contains(healed(out), operation.Restart) {
		t.Error("a member that is silent alone is not healed, so the split shows nothing")
	}
}

// healed are the Operations that healing began.
func healed(out trace.Trace) []operation.Kind {
	var begun []operation.Kind
	seen := map[string]bool{}
	for _, e := range out {
		if o := e.Operation; o != nil && o.Actor == operation.ActorHealing && !seen[o.ID] {
			seen[o.ID] = true
			begun = append(begun, o.Kind)
		}
	}
	return begun
}

// TestAnIllFleetIsHealedInTurn: one CVM a minute, however many report as unhealthy at once.
func TestAnIllFleetIsHealedInTurn(t *testing.T) {
	p := read(t, "testdata/illfleet.plan")
	out, broken := simulator.Judge(t, p)
	if len(broken) > 0 {
		t.Errorf("%s", simulator.Explain(p, out, broken))
	}
	var began []time.Duration
	seen := map[string]bool{}
	for _, e := range out {
		if o := e.Operation; o != nil && o.Actor == operation.ActorHealing && !seen[o.Slot] {
			seen[o.Slot], began = true, append(began, e.At)
		}
	}
	for i, at := range began {
		if i > 0 && at-began[i-1] < 30*time.Second {
			t.Errorf("member %d is restarted %s after the one before: %v", i, at-began[i-1], began)
		}
	}
	if len(began) < 3 {
		t.Errorf("healed are %d, so nothing is shown", len(began))
	}
}
