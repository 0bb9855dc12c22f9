package simulator_test

import (
	"maps"
	"slices"
	"testing"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/operation"
	"cadre.dev/simulator"
	"cadre.dev/simulator/trace"
)

// TestAServiceIsHealedWithoutItsCVM: the order reaches the running Boot, which stays and serves
// again. No platform call is made.
func TestAServiceIsHealedWithoutItsCVM(t *testing.T) {
	p := read(t, "testdata/service.plan")
	out, broken := simulator.Judge(t, p)
	if len(broken) > 0 {
		t.Errorf("%s", simulator.Explain(p, out, broken))
	}
	repairs, boots, serves := map[string]operation.Operation{}, map[string][]string{}, map[string]bool{}
	for _, e := range out {
		switch o := e.Operation; {
		case o != nil && o.Actor == operation.ActorHealing:
			repairs[o.ID] = *o
		case e.Kind == trace.Called && e.Call.Verb != cloud.Create:
			t.Errorf("the platform is called: %s", e)
		case e.Kind == trace.Served:
			boots[e.Slot], serves[e.Slot] = append(boots[e.Slot], e.Boot), true
		case e.Kind == trace.Stopped:
			serves[e.Slot] = false
		}
	}
	healed := []string{}
	for _, o := range repairs {
		if healed = append(healed, o.Slot); o.Way.Service != "pg" || o.Phase != operation.Done || o.Call.Number != 0 {
			t.Errorf("%s %s of service %q ends %s after %d calls: %s", o.Kind, o.Slot, o.Way.Service, o.Phase, o.Call.Number, o.Reason)
		}
	}
	if slices.Sort(healed); !slices.Equal(healed, []string{"pg-0", "pg-1"}) {
		t.Errorf("healed are %v", healed)
	}
	for _, slot := range slices.Sorted(maps.Keys(boots)) {
		if all := boots[slot]; !serves[slot] || len(slices.Compact(all)) != 1 {
			t.Errorf("%s serves at the end: %t; it did as %v", slot, serves[slot], all)
		}
	}
}
