package rollout

import (
	"slices"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func stoppedFixture() *fixture {
	f := newFixture(3, "consul")
	f.spec.Stopped = true
	for i := range 3 {
		f.op(i, operation.Drained, func(op *operation.Operation) {
			op.Kind, op.Actor, op.Rollout = operation.Stop, operation.ActorScaling, ""
			op.Call.Applied = []operation.Part{operation.PartStop}
		}).stopped(i)
	}
	return f
}

// TestR147_AStoppedGroupIsNoOutage: no condition alarms about members that are stopped on purpose, and the state and
// every held step say so.
func TestR147_AStoppedGroupIsNoOutage(t *testing.T) {
	f := stoppedFixture().want("B")
	p := f.plan()
	for _, c := range p.Status.Conditions {
		if c.Type == ConditionQuorum || c.Type == ConditionAgentsReporting || c.Type == ConditionQuarantined {
			t.Errorf("%s is %t: %s", c.Type, c.Status, c.Message)
		}
		if c.Type == ConditionAvailable && (c.Status || c.Reason != ReasonGroupStopped) {
			t.Errorf("Available is %t by %s", c.Status, c.Reason)
		}
	}
	for _, i := range p.Status.Instances {
		if i.State != group.SlotStopped {
			t.Errorf("%s is %s", i.Slot, i.State)
		}
	}
	if len(p.Actions) != 3 {
		t.Errorf("%d actions\n%s", len(p.Actions), describe(p))
	}
	for _, a := range p.Actions {
		held := slices.ContainsFunc(a.Holds, func(h Hold) bool { return h.Predicate == HoldGroupStopped })
		if a.Kind != operation.Update || a.Execute || !held {
			t.Errorf("%s of %s is not held by the stop\n%s", a.Kind, a.Slot, describe(p))
		}
	}
}

// TestR147_VotersStartTogether: each voter needs the others, so none waits.
func TestR147_VotersStartTogether(t *testing.T) {
	f := stoppedFixture()
	f.spec.Stopped = false
	for _, op := range f.rec.Operations {
		if facts := f.facts(op); facts.Unwanted == "" || !facts.Safe {
			t.Errorf("%s does not start: unwanted %q, safe %t: %s", op.Slot, facts.Unwanted, facts.Safe, facts.SafeReason)
		}
	}
}
