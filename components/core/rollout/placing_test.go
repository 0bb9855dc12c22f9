package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/placement"
)

// onNodes puts the members on nodes, by ordinal.
func (f *fixture) onNodes(nodes []placement.Node, at ...string) *fixture {
	f.obs.Nodes = nodes
	for i, node := range at {
		if f.obs.Slots[i].Instance != nil {
			f.obs.Slots[i].Instance.Node = node
		}
		f.rec.Slots[i].Node = node
	}
	return f
}

// Members on one node that does not answer are one event for the limiter of their group.
func TestR117_AMembersNodeIsOneEvent(t *testing.T) {
	for name, c := range map[string]struct {
		silent string
		want   int
	}{"the node answers": {"", 3}, "the node of two does not": {"a", 2}} {
		f := newFixture(5, "none").onNodes([]placement.Node{{ID: "a", Silent: c.silent == "a"}, {ID: "b"}, {ID: "c"}}, "a", "a", "b", "b", "c")
		f.spec.Platform, f.spec.AutoHealing = group.PlatformVMM, &group.AutoHealing{}
		for _, i := range []int{0, 1, 2} {
			f.stopped(i)
			f.rec.Slots[i].UnavailableSince = f.now.Add(-time.Minute)
		}
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		w.trackRollout()
		if got := w.bucket().unhealthy; got != c.want {
			t.Errorf("%s: %d unhealthy members count, want %d", name, got, c.want)
		}
	}
}

// A second creation counts the node that the first one chose, also before any call, whichever is called first.
func TestChoicesOfOnePassCountEachOther(t *testing.T) {
	f := newFixture(3, "none").onNodes([]placement.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}}, "a", "", "")
	f.spec.Placement = group.Placement{Spread: group.SpreadNode, MaxPer: 1, Require: true}
	f.missing(1).missing(2)
	create := func(op *operation.Operation) {
		op.Kind, op.Before, op.CVM = operation.Create, operation.Before{}, operation.CVM{}
	}
	f.op(1, operation.Drained, create).op(2, operation.Drained, create)
	var ops []operation.Operation
	for _, op := range f.rec.Operations {
		if !op.Phase.Ended() {
			ops = append(ops, op)
		}
	}
	if len(ops) != 2 {
		t.Fatalf("%d open operations", len(ops))
	}
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		pass := Evaluate(f.spec, f.rec, f.obs, f.now, f.t)
		pass.Plan()
		chosen := map[string]string{}
		for _, i := range order {
			facts := pass.Facts(ops[i])
			chosen[ops[i].Slot] = facts.Node
			if !facts.Safe {
				t.Errorf("%s is held: %s", ops[i].Slot, facts.SafeReason)
			}
		}
		if got := fmt.Sprint(chosen); got != "map[db-1:b db-2:c]" {
			t.Errorf("order %v: %s", order, got)
		}
	}
}

// The last check judges the recorded node against the places of that moment.
func TestARecordedNodeIsJudgedAgain(t *testing.T) {
	f := newFixture(2, "none").onNodes([]placement.Node{{ID: "a"}, {ID: "b"}}, "a", "")
	f.spec.Placement = group.Placement{NotWith: []string{"batch"}, Require: true}
	f.missing(1)
	f.op(1, operation.Acting, func(op *operation.Operation) {
		op.Kind, op.Before, op.CVM = operation.Create, operation.Before{}, operation.CVM{}
		op.Call = operation.Call{Part: operation.PartCreate, Number: 1, IssuedAt: f.now, Node: "b"}
	})
	op := f.rec.Operations[len(f.rec.Operations)-1]
	f.obs.Others = []placement.Other{{Group: "batch", Known: true}}
	if facts := f.facts(op); facts.Misplaced != "" || !facts.Safe {
		t.Errorf("nothing is on the node: %q, %s", facts.Misplaced, facts.SafeReason)
	}
	f.obs.Others[0].Nodes = []string{"b"}
	if facts := f.facts(op); !strings.Contains(facts.Misplaced, "group batch") || !facts.Safe || facts.Node != "a" {
		t.Errorf("a member of batch came: %q, safe %t, next %q", facts.Misplaced, facts.Safe, facts.Node)
	}
}

// A node that refused the CVM of a Slot is the last choice for the next attempt.
func TestANodeThatRefusedComesLast(t *testing.T) {
	f := newFixture(2, "none").onNodes([]placement.Node{{ID: "a"}, {ID: "b"}}, "b", "")
	f.spec.Placement = group.Placement{Spread: group.SpreadNode, MaxPer: 1}
	f.missing(1)
	f.op(1, operation.Acting, func(op *operation.Operation) {
		op.Kind, op.Before, op.CVM = operation.Create, operation.Before{}, operation.CVM{}
		op.Call = operation.Call{Part: operation.PartCreate, Number: 1, IssuedAt: f.now, Node: "a", Outcome: operation.OutcomeRefused}
	})
	if facts := f.facts(f.rec.Operations[len(f.rec.Operations)-1]); facts.Node != "b" {
		t.Errorf("the next call goes to %q", facts.Node)
	}
}

// Only the records of groups that need it name nodes: an older coordinator refuses a record with a new field.
func TestRecordsNameNodesWhereTheGroupNeedsThem(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*group.Spec)
		want string
	}{
		"phala, no placement":    {func(*group.Spec) {}, ""},
		"phala with a placement": {func(s *group.Spec) { s.Placement.Spread = group.SpreadNode }, "a"},
		"several hosts":          {func(s *group.Spec) { s.Platform = group.PlatformVMM }, "a"},
	} {
		f := newFixture(1, "none").onNodes([]placement.Node{{ID: "a", Name: "host-a", Region: "west"}}, "a")
		c.edit(&f.spec)
		p := f.plan()
		if i := p.Status.Instances[0]; p.Slots[0].Node != c.want || i.Node != "a" || i.NodeName != "host-a" || i.Region != "west" {
			t.Errorf("%s: record %q, status %q %q %q", name, p.Slots[0].Node, i.Node, i.NodeName, i.Region)
		}
	}
}
