package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestACreateNamesTheNodesThatCannotHaveItsCVM: names are unique, so a driver needs the answer of each other node. A node
// is named only if no call can have made a CVM of the Slot there, or an operator declared it lost.
func TestACreateNamesTheNodesThatCannotHaveItsCVM(t *testing.T) {
	step := func(kind operation.Kind, edit func(*operation.Call)) func(*fixture) {
		return func(f *fixture) {
			f.op(2, operation.Acting, func(op *operation.Operation) {
				op.Kind, op.CVM, op.Call = kind, operation.CVM{}, operation.Call{Part: operation.PartCreate, Number: 1, IssuedAt: f.now.Add(-time.Hour)}
				edit(&op.Call)
			})
		}
	}
	lost := func(f *fixture) {
		f.obs.Slots[2].Instance, f.obs.Slots[2].Report, f.rec.Slots[2].Node = nil, nil, "b"
	}
	for name, c := range map[string]struct {
		as   []func(*fixture)
		want bool
	}{
		"never made":                            {[]func(*fixture){func(f *fixture) { f.missing(2) }}, true},
		"listed on a node that answers":         {[]func(*fixture){func(f *fixture) { f.obs.Slots[2].Instance.Node = "a" }}, true},
		"gone from a node that answers":         {[]func(*fixture){lost, func(f *fixture) { f.rec.Slots[2].Node = "a" }}, true},
		"gone, and its node was never recorded": {[]func(*fixture){lost, func(f *fixture) { f.rec.Slots[2].Node = "" }}, false},
		"on the silent node":                    {[]func(*fixture){lost}, false},
		"declared lost":                         {[]func(*fixture){lost, step(operation.Replace, func(c *operation.Call) { *c = operation.Call{} })}, true},
		"declared lost, and its agent reports": {[]func(*fixture){func(f *fixture) { f.obs.Slots[2].Instance, f.rec.Slots[2].Node = nil, "b" },
			step(operation.Replace, func(c *operation.Call) { *c = operation.Call{} })}, false},
		"a create that may have had an effect":   {[]func(*fixture){func(f *fixture) { f.missing(2) }, step(operation.Create, func(c *operation.Call) { c.Outcome = operation.OutcomeUnknown })}, false},
		"a create on the node that answers":      {[]func(*fixture){func(f *fixture) { f.missing(2) }, step(operation.Create, func(c *operation.Call) { c.Outcome, c.Node = operation.OutcomeUnknown, "a" })}, true},
		"a create without effect":                {[]func(*fixture){func(f *fixture) { f.missing(2) }, step(operation.Create, func(c *operation.Call) { c.Outcome = operation.OutcomeBusy })}, true},
		"two creates without effect":             {[]func(*fixture){func(f *fixture) { f.missing(2) }, step(operation.Create, func(c *operation.Call) { c.Outcome, c.Number, c.Vain = operation.OutcomeBusy, 2, 1 })}, true},
		"a create that was not sent yet":         {[]func(*fixture){func(f *fixture) { f.missing(2) }, step(operation.Create, func(c *operation.Call) { c.Number, c.Vain, c.IssuedAt = 2, 1, c.IssuedAt.Add(time.Hour) })}, true},
		"the second create, after an unsure one": {[]func(*fixture){func(f *fixture) { f.missing(2) }, step(operation.Create, func(c *operation.Call) { c.Outcome, c.Number = operation.OutcomeBusy, 2 })}, false},
	} {
		f := newFixture(3, "none")
		f.spec.Platform, f.obs.SilentNodes, f.t.StopFirst = "vmm", []string{"b"}, true
		for _, edit := range c.as {
			edit(f)
		}
		op := operation.Operation{Group: "db", Slot: "db-2", Kind: operation.Create}
		if n := len(f.rec.Operations); n > 0 {
			op = f.rec.Operations[n-1]
		}
		got := f.facts(op).NotOn
		if c.want != slices.Equal(got, []string{"b"}) || !c.want && len(got) > 0 {
			t.Errorf("%s: the create names %v; named: want %t", name, got, c.want)
		}
	}
}

// TestTheFirstCVMOfAGroupWaitsForEveryNode: the id of a new app may be that of an app on a node without an answer.
func TestTheFirstCVMOfAGroupWaitsForEveryNode(t *testing.T) {
	f := newFixture(2, "none").missing(0).missing(1)
	wantExecutes(t, f.plan(), "CREATE db-0")
	f.obs.SilentNodes = []string{"b"}
	wantHeld(t, f.plan(), "db-0", HoldAppID)
	f.rec.Slots[1] = group.SlotRecord{Group: "db", Slot: "db-1", Ordinal: 1, AppID: f.spec.AppID}
	wantExecutes(t, f.plan(), "CREATE db-0")
}

// TestAnUnknownMemberHasAWayOut: a step whose call cannot be decided is ended first, since no other step of its Slot begins
// before.
func TestAnUnknownMemberHasAWayOut(t *testing.T) {
	f := newFixture(3, "none")
	f.spec.Platform, f.obs.SilentNodes = "vmm", []string{"b"}
	f.obs.Slots[2].Instance, f.obs.Slots[2].Report, f.rec.Slots[2].Node = nil, nil, "b"
	message := func() string {
		for _, c := range f.plan().Status.Conditions {
			if c.Type == ConditionObserved {
				return c.Message
			}
		}
		return ""
	}
	if got, want := message(), "node b does not answer: db-2 is unknown; if the node is lost for good with its disks: cadre instance replace SLOT"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.op(2, operation.Acting, func(op *operation.Operation) { op.Call = operation.Call{Part: operation.PartStop, Number: 1} })
	if got, want := message(), "cadre operation mark-failed for "+f.rec.Operations[0].ID+", then cadre instance replace SLOT"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want the end %q", got, want)
	}
}
