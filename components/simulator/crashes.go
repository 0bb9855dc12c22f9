package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// Crashed is a run in which coordinators died at points of their work, and its result.
type Crashed struct {
	Plan plan.Plan
	// Wrong describes the fault; "" where the run kept every promise and ended like a run without a
	// crash.
	Wrong string
}

// Steps returns how many steps p takes without a crash, and its end state.
func Steps(t *testing.T, p plan.Plan) (steps int, ends string) {
	t.Helper()
	p.CrashPoints = nil
	out, broken := Judge(t, p)
	if len(broken) > 0 {
		t.Fatalf("without a crash: %s", Explain(p, out, broken))
	}
	return out[len(out)-1].Steps, end(out)
}

// CrashAt runs p with a crash after each of these steps; it must end in the state ends.
func CrashAt(t *testing.T, p plan.Plan, ends string, points ...int) Crashed {
	t.Helper()
	p.CrashPoints = slices.Clone(points)
	out, broken := Judge(t, p)
	switch got := end(out); {
	case len(broken) > 0:
		return Crashed{p, Explain(p, out, broken)}
	case got != ends:
		return Crashed{p, fmt.Sprintf("%s\nit ends as\n%swithout a crash as\n%s%s\n%s", p, got, ends, reasons(out), out)}
	}
	return Crashed{Plan: p}
}

// reasons are the groups' reasons, at the end, for not being settled.
func reasons(out trace.Trace) string {
	var b strings.Builder
	last := out[len(out)-1]
	for _, name := range slices.Sorted(maps.Keys(last.Resting)) {
		if why := last.Resting[name]; why != "" {
			fmt.Fprintf(&b, "group %s does not rest: %s\n", name, why)
		}
	}
	return b.String()
}

// end is the end state of a run, without times: the settled groups or their holds, the content of
// each CVM, the records of each Slot, and the sets.
func end(out trace.Trace) string {
	var b strings.Builder
	last := out[len(out)-1]
	for _, name := range slices.Sorted(maps.Keys(last.Resting)) {
		fmt.Fprintf(&b, "group %s: at rest: %t, held by %v\n", name, last.Resting[name] == "", last.Waiting[name].Holds)
	}
	for _, c := range last.CVMs {
		fmt.Fprintf(&b, "%s runs %s\n", c.Name, c.Hash)
	}
	slots, sets := map[string]string{}, map[string]string{}
	for _, e := range out {
		switch {
		case e.Bound != nil && e.Deleted:
			delete(slots, e.Bound.Slot)
		case e.Bound != nil:
			slots[e.Bound.Slot] = fmt.Sprintf("assigned %s, has a CVM: %t, extra: %t", e.Bound.Assigned, e.Bound.VMUUID != "", e.Bound.Extra)
		case e.Kind == trace.Listed:
			sets[e.Group] = fmt.Sprintf("%v and without a vote %v", e.Voters, e.Learners)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(slots)) {
		fmt.Fprintf(&b, "%s: %s\n", name, slots[name])
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		fmt.Fprintf(&b, "set of %s: %s\n", name, sets[name])
	}
	return b.String()
}
