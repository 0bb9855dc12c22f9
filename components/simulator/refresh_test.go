package simulator_test

import (
	"testing"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/operation"
	"cadre.dev/simulator"
	"cadre.dev/simulator/trace"
)

// TestChangedChecksKeepEveryMemberInDiscovery: the running Boots prove each change of the checks, one after
// the other. No platform call is made, and discovery leads to every member throughout.
func TestChangedChecksKeepEveryMemberInDiscovery(t *testing.T) {
	p := read(t, "testdata/crashes/checks-change.plan")
	out, broken := simulator.Judge(t, p)
	if len(broken) > 0 {
		t.Errorf("%s", simulator.Explain(p, out, broken))
	}
	done, found := map[string]map[string]bool{}, map[string]bool{}
	for _, e := range out {
		switch o := e.Operation; {
		case e.Kind == trace.Called && e.Call.Verb != cloud.Create, e.Kind == trace.Hidden, e.Kind == trace.Stopped:
			t.Errorf("somebody is missed: %s", e)
		case e.Kind == trace.Found:
			found[e.By+" "+e.Slot] = true
		case o != nil && e.At > time.Minute && o.Phase == operation.Done:
			if done[o.Slot] == nil {
				done[o.Slot] = map[string]bool{}
			}
			if done[o.Slot][o.ID] = true; !o.Way.Refreshes() || o.Call.Number > 0 {
				t.Errorf("%s is no refresh", e)
			}
		}
	}
	const members, coordinators, changes = 3, 3, 3
	if len(found) != members*coordinators || len(done) != members {
		t.Errorf("found were %v, refreshed %v", found, done)
	}
	for slot, steps := range done {
		if len(steps) != changes {
			t.Errorf("%s was refreshed by %v, want %d", slot, steps, changes)
		}
	}
}
