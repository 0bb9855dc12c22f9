package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// order numbers A, B and C as #1, #2 and #3.
func (f *fixture) order() policy.GroupPolicy {
	gp := policy.GroupPolicy{Group: "db", Revisions: map[string]policy.Numbered{}, Last: 3}
	for i, name := range []string{"A", "B", "C"} {
		t := f.spec.Template
		t.Compose = compose(name)
		gp.Revisions[revisionOf(f.spec, name)] = policy.Numbered{Number: uint64(i + 1), Content: group.Content(t)}
		r := f.rec.Revisions[revisionOf(f.spec, name)]
		r.Template = t
		f.rec.Revisions[revisionOf(f.spec, name)] = r
	}
	return gp
}

func gateHolds(p Plan) (out []string) {
	for _, a := range p.Actions {
		for _, h := range a.Holds {
			if slices.Contains([]string{HoldNotApproved, HoldBelowFloor, HoldRevoked}, h.Predicate) {
				out = append(out, a.Slot+" "+h.Predicate)
			}
		}
	}
	return out
}

func TestOPS06_ARollbackBelowTheFloorIsHeldAndSaysSo(t *testing.T) {
	f := newFixture(3, "none")
	for i := range 3 {
		f.at(i, "B")
	}
	f.rec.Policy = f.order()
	f.rec.Policy.Floor.Number = 2
	f.want("A")
	p := f.plan()
	if got := gateHolds(p); len(got) != 3 {
		t.Errorf("holds %v", got)
	}
	if !strings.Contains(p.Message, "below_floor: REVISION_BELOW_FLOOR") || !strings.Contains(p.Message, "(#1) is below the floor #2") {
		t.Errorf("message %q", p.Message)
	}
	for _, a := range p.Actions {
		if a.Execute {
			t.Errorf("%s %s may run", a.Kind, a.Slot)
		}
	}
	f.want("C")
	if got := gateHolds(f.plan()); len(got) != 0 {
		t.Errorf("the way forward is held: %v", got)
	}
}

// TestOPS06_TheHoldSaysWhyARevisionMayNotRun: the rise of the floor or a revocation evicted the Boot of a Revision that
// the spec still names. The planner has no step for it, and the Hold is the only message to the operator.
func TestOPS06_TheHoldSaysWhyARevisionMayNotRun(t *testing.T) {
	f := newFixture(3, "none")
	f.rec.Policy = f.order()
	f.rec.Policy.Floor.Number = 2
	for i := range f.obs.Slots {
		f.obs.Slots[i].Admission, f.obs.Slots[i].Report = nil, nil
	}
	p := f.plan()
	if got := gateHolds(p); len(got) != 3 || !strings.Contains(p.Message, "below_floor: REVISION_BELOW_FLOOR") {
		t.Errorf("holds %v, message %q", got, p.Message)
	}
	f.rec.Policy.Floor.Number = 1
	if p := f.plan(); len(p.Actions) != 0 {
		t.Errorf("it may run, and its boots are waited for: %+v", p.Actions)
	}
}

func TestATT15_AnUnapprovedRevisionIsPlannedAndHeld(t *testing.T) {
	f := newFixture(3, "none")
	f.rec.Policy = f.order()
	f.rec.Policy.RequireApproval = true
	f.rec.Policy.Approvals = map[string]policy.Approval{revisionOf(f.spec, "A"): {}}
	f.want("B")
	p := f.plan()
	if got := gateHolds(p); len(got) != 3 || !strings.Contains(p.Message, "cadre admission approve "+revisionOf(f.spec, "B")[:8]) {
		t.Errorf("holds %v, message %q", got, p.Message)
	}
	if p.Status.TargetNumber != 2 {
		t.Errorf("target #%d", p.Status.TargetNumber)
	}
	// An operator's approval may take longer than the rollout's deadline.
	f.rec.Rollout, f.rec.Status.Target = p.Rollout, p.Target
	f.now = f.now.Add(48 * time.Hour)
	f.obs.At = f.now
	if p = f.plan(); p.Rollout.State != operation.Running {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
	// The compose hash alone does not cover hooks and checks.
	f.rec.Policy.Approvals[hashOf("B")] = policy.Approval{}
	if got := gateHolds(f.plan()); len(got) != 3 {
		t.Errorf("approved by its hash alone: held %v", got)
	}
	f.rec.Policy.Approvals[revisionOf(f.spec, "B")] = policy.Approval{ComposeHash: hashOf("B")}
	p = f.plan()
	if got := gateHolds(p); len(got) != 0 {
		t.Errorf("approved and held: %v", got)
	}
	if p.Rollout.State != operation.Running || !p.Rollout.ProgressAt.Equal(f.now) {
		t.Errorf("approved after two days: %s (%s), its clock began at %s", p.Rollout.State, p.Rollout.Reason, p.Rollout.ProgressAt)
	}
}

func TestRevokedRevisionIsNotRolledOutNorRestarted(t *testing.T) {
	f := newFixture(2, "none")
	f.rec.Policy = f.order()
	f.rec.Policy.Revoked = []policy.Revocation{{Kind: policy.RevokedRevision, ID: hashOf("A")}}
	f.asks("db-1", "q")
	if got := gateHolds(f.plan()); !slices.Equal(got, []string{"db-1 revoked"}) {
		t.Errorf("holds %v", got)
	}
	f.spec.Replicas = 1 // a removal needs no admission
	if got := gateHolds(f.plan()); len(got) != 0 {
		t.Errorf("the removal is held: %v", got)
	}
}

func TestProblemsBecomeACondition(t *testing.T) {
	f := newFixture(1, "none")
	f.rec.Problems = []policy.Problem{{Reason: policy.ProblemFloorNotLowered, Message: "a floor only rises"}}
	for _, c := range f.plan().Status.Conditions {
		if c.Type == ConditionAdmissionPolicy && !c.Status && c.Reason == "FLOOR_NOT_LOWERED" {
			return
		}
	}
	t.Errorf("conditions %+v", f.plan().Status.Conditions)
}

// TestR139_NoMessageNamesAMissingPin: the way out names the actual obstacle.
func TestR139_NoMessageNamesAMissingPin(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	f.rec.Policy.RequireApproval = true
	f.rec.Policy.Approvals = map[string]policy.Approval{revisionOf(f.spec, "A"): {ComposeHash: hashOf("A")}}
	for _, h := range actionOf(t, f.plan(), "db-1").Holds {
		if h.Predicate == HoldNotApproved && !strings.Contains(h.Message, "pinned_revision") {
			return
		}
	}
	t.Error(describe(f.plan()))
}

// A pin to a Revision that may not run waits for an operator. The message names the pin, and the rollout of the
// other Slots does not fail by it.
func TestR139_APinToARefusedRevisionFailsNoOtherSlot(t *testing.T) {
	for hold, refuse := range map[string]func(*policy.GroupPolicy, *fixture){
		HoldRevoked: func(gp *policy.GroupPolicy, f *fixture) {
			gp.Revoked = []policy.Revocation{{Kind: policy.RevokedRevision, ID: revisionOf(f.spec, "A"), Reason: "a hole"}}
		},
		HoldBelowFloor: func(gp *policy.GroupPolicy, _ *fixture) { gp.Floor.Number = 2 },
		HoldNotApproved: func(gp *policy.GroupPolicy, f *fixture) {
			gp.RequireApproval = true
			gp.Approvals = map[string]policy.Approval{revisionOf(f.spec, "B"): {ComposeHash: hashOf("B")}}
		},
	} {
		f := newFixture(3, "none").want("B")
		for i := range 3 {
			f.at(i, "B")
		}
		f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, PinnedRevision: revisionOf(f.spec, "A")}}
		gp := f.order()
		refuse(&gp, f)
		f.rec.Policy = gp
		f.rolling()
		f.rec.Rollout.State, f.rec.Rollout.ProgressAt = operation.Running, f.now.Add(-24*time.Hour)
		p := f.plan()
		wantHeld(t, p, "db-1", hold)
		if p.Rollout.State != operation.Running || !strings.Contains(p.Message, `instance["1"].pinned_revision`) {
			t.Errorf("%s: %s (%s), message %q", hold, p.Rollout.State, p.Rollout.Reason, p.Message)
		}
	}
}
