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

// failing is a group whose ordinal 2 failed at B with a cause, on its way from A. The spec rolls back.
func failing(cause operation.Cause) *fixture {
	f := newFixture(3, "none").want("A")
	for _, name := range []string{"A", "B"} {
		f.want(name)
		f.rec.Revisions[f.spec.Revision()] = group.RevisionRecord{Digest: f.spec.Revision(), Group: "db", ComposeHash: hashOf(name),
			Template: f.spec.Template, AgentSpec: f.spec.AgentSpec()}
	}
	f.spec.UpdatePolicy.OnFailure = group.Rollback
	b := f.spec.Revision()
	f.rec.Status.Target, f.rec.Status.Generation = b, 2
	f.rec.Rollout = &operation.Rollout{ID: "db-2-" + b[:8], Group: "db", Generation: 2, From: f.rec.Status.Stable, To: b, State: operation.Running,
		StartedAt: f.now.Add(-time.Hour), ProgressAt: f.now.Add(-time.Minute), Steps: 1}
	f.at(2, "B")
	f.rec.Slots[2].WasAvailableAt = f.rec.Status.Stable
	f.obs.Slots[2].Report.Health = Unhealthy
	f.rec.Operations = []operation.Operation{{ID: f.rec.Rollout.ID + ".1.db-2", Rollout: f.rec.Rollout.ID, Group: "db", Slot: "db-2", Kind: operation.Update,
		Actor: operation.ActorRollout, Phase: operation.Failed, From: f.rec.Status.Stable, To: b, Order: 1, Reason: "it failed",
		Failure: operation.Failure{Cause: cause}, Times: operation.Times{Ended: f.now.Add(-time.Second)}}}
	return f
}

// TestR101_WhatRollsBack: each row of the table in the guide to rollouts.
func TestR101_WhatRollsBack(t *testing.T) {
	const back = ""
	one := func(cause operation.Cause) *fixture { return failing(cause) }
	aborted := func(cause operation.Cause) *fixture {
		f := failing(cause)
		op := f.rec.Operations[0]
		f.rec.Operations = nil
		for n := range maxAborts {
			op.Order, op.Phase = n+1, operation.Aborted
			op.ID = strings.Repeat("x", n+1)
			f.rec.Operations = append(f.rec.Operations, op)
		}
		f.rec.Rollout.Steps = maxAborts
		return f
	}
	overdue := func(f *fixture) *fixture {
		f.rec.Operations, f.rec.Rollout.ProgressAt = nil, f.now.Add(-24*time.Hour)
		return f
	}
	refused := func(code policy.Code) *fixture {
		f := failing(operation.CauseDeadline)
		f.obs.Slots[2].Refusal = &policy.Refusal{Slot: "db-2", Code: code, At: f.now.Add(-time.Second)}
		return f
	}
	for name, c := range map[string]struct {
		f    *fixture
		want string // the code of the reason; empty: it rolls back
	}{
		"not available in time":                            {one(operation.CauseDeadline), back},
		"it failed in a bake":                              {one(operation.CauseBake), back},
		"the CVM does not boot":                            {one(operation.CauseBootError), back},
		"a POST_LAUNCH hook gave it up":                    {one(operation.CausePostLaunch), back},
		"its hooks called it off three times":              {aborted(operation.CauseHook), back},
		"the drain never ended in time":                    {aborted(operation.CauseDrainDeadline), NotTheRevision},
		"the step never became safe":                       {aborted(operation.CauseUnsafe), NotTheRevision},
		"the task of the platform failed":                  {one(operation.CauseTask), NotTheRevision},
		"the platform shows another CVM":                   {one(operation.CauseReplaced), NotTheRevision},
		"the CVM vanished":                                 {one(operation.CauseVanished), NotTheRevision},
		"an operator recorded the failure":                 {one(operation.CauseResolved), NotTheRevision},
		"no progress, and a member is ill at the revision": {overdue(one("")), back},
		"no progress, and nothing runs the revision": {func() *fixture {
			f := overdue(one(""))
			f.at(2, "A").obs.Slots[2].Report.Health = Unhealthy
			return f
		}(), NotTheRevision},
		"refused for its image":    {refused(policy.CodeMeasurementMismatch), back},
		"refused for its firmware": {refused(policy.CodeTCBOutOfDate), NotTheRevision},
		"refused for its machine":  {refused(policy.CodeMachineShared), NotTheRevision},
		"the other agents are silent": {func() *fixture {
			f := one(operation.CauseDeadline)
			f.obs.Slots[0].Report, f.obs.Slots[1].Report = nil, nil
			return f
		}(), NotTheRevision},
		"the node is silent": {func() *fixture {
			f := one(operation.CauseDeadline)
			f.rec.Slots[2].Node, f.obs.SilentNodes, f.obs.Slots[2].Instance = "n1", []string{"n1"}, nil
			return f
		}(), NotTheRevision},
	} {
		p := c.f.plan()
		switch {
		case c.want == back && p.Rollout.State != operation.RollingBack:
			t.Errorf("%s: %s: %s", name, p.Rollout.State, p.Rollout.Reason)
		case c.want != back && (p.Rollout.State != operation.FailedState || !strings.Contains(p.Rollout.Reason, "not rolled back: "+c.want+": ")):
			t.Errorf("%s: %s: %s", name, p.Rollout.State, p.Rollout.Reason)
		}
	}
}

// TestR101_AWayBackWithoutItsContentStops: no step goes to the failed revision, and none to unknown content.
func TestR101_AWayBackWithoutItsContentStops(t *testing.T) {
	f := failing(operation.CauseDeadline)
	f.rec.Rollout = f.plan().Rollout
	delete(f.rec.Revisions, f.rec.Status.Stable)
	p := f.plan()
	if p.Rollout.State != operation.FailedState || !strings.Contains(p.Rollout.Reason, "is not recorded any more") {
		t.Errorf("%s: %s", p.Rollout.State, p.Rollout.Reason)
	}
	for _, a := range p.Actions {
		if a.Execute {
			t.Errorf("%s of %s to %.8s begins", a.Kind, a.Slot, a.To)
		}
	}
}

// TestR101_ARevisionThatWasAvailableCountsAsFailed after its rollback, so that no other rollback goes there.
func TestR101_ARevisionThatWasAvailableCountsAsFailed(t *testing.T) {
	f := failing(operation.CauseDeadline)
	f.rec.Slots[2].WasAvailableAt = f.spec.Revision()
	if p := f.plan(); !slices.Contains(p.Status.FailedRevisions, f.spec.Revision()) || p.Status.Target != f.spec.Revision() || p.Status.Stable == p.Status.Target {
		t.Errorf("%+v", p.Status)
	}
}

// TestR102_WhereItDoesNotGoBack: a stable revision that must not run, or that is the failed content (R102).
func TestR102_WhereItDoesNotGoBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fixture)
		want   string
	}{
		"nothing completed before": {func(f *fixture) { f.rec.Status.Stable, f.rec.Rollout.From = "", "" }, NothingToRollBackTo},
		"no record of the content": {func(f *fixture) { delete(f.rec.Revisions, f.rec.Status.Stable) }, NothingToRollBackTo},
		"the record is of other content": {func(f *fixture) {
			r := f.rec.Revisions[f.rec.Status.Stable]
			r.Template.Compose = compose("C")
			f.rec.Revisions[f.rec.Status.Stable] = r
		}, NothingToRollBackTo},
		"the same content with another token": {func(f *fixture) {
			same := f.spec
			same.RestartToken = "before"
			f.rec.Status.Stable = same.Revision()
			f.rec.Revisions[same.Revision()] = group.RevisionRecord{Digest: same.Revision(), Template: same.Template, AgentSpec: same.AgentSpec(), RestartToken: "before"}
		}, NothingToRollBackTo},
		"it failed too":   {func(f *fixture) { f.rec.Status.FailedRevisions = []string{f.rec.Status.Stable} }, StableFailed},
		"below the floor": {func(f *fixture) { f.rec.Policy = f.order(); f.rec.Policy.Floor.Number = 2 }, StableNotAllowed},
		"revoked": {func(f *fixture) {
			f.rec.Policy.Revoked = []policy.Revocation{{Kind: policy.RevokedRevision, ID: f.rec.Status.Stable}}
		}, StableNotAllowed},
		"not approved": {func(f *fixture) {
			f.rec.Policy.RequireApproval = true
			f.rec.Policy.Approvals = map[string]policy.Approval{f.spec.Revision(): {ComposeHash: hashOf("B")}}
		}, StableNotAllowed},
		"the platform refuses it": {func(f *fixture) { f.obs.Refused = map[string]string{f.rec.Status.Stable: "no such image"} }, StableNotAllowed},
		"on_failure is PAUSE":     {func(f *fixture) { f.spec.UpdatePolicy.OnFailure = group.Pause }, ""},
	} {
		f := failing(operation.CauseDeadline)
		c.change(f)
		p := f.plan()
		if p.Rollout.State != operation.FailedState || p.Rollout.Back != nil || c.want != "" && !strings.Contains(p.Rollout.Reason, c.want) || c.want == "" && strings.Contains(p.Rollout.Reason, "rolled back") {
			t.Errorf("%s: %s: %s", name, p.Rollout.State, p.Rollout.Reason)
		}
		if begins := slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Execute }); begins {
			t.Errorf("%s: a step begins", name)
		}
	}
}

// TestR101_ARollbackWaitsForNoOtherGroup: the other group may be away because of the Revision that failed.
func TestR101_ARollbackWaitsForNoOtherGroup(t *testing.T) {
	f := atMost(2, failing(operation.CauseBootError)).after("2 of 3 slots are available")
	f.at(1, "B")
	if p := f.plan(); p.Rollout.State != operation.RollingBack || !actionOf(t, p, "db-1").Execute {
		t.Errorf("state %s, db-1 is held by %v", p.Rollout.State, actionOf(t, p, "db-1").Holds)
	}
}

// TestR31_ALeaderAtAFailedRevisionGoesLast: its step waits for the followers, so the plan lists it after them.
func TestR31_ALeaderAtAFailedRevisionGoesLast(t *testing.T) {
	f := newFixture(3, "etcd")
	f.lead(2)
	f.rec.Status.FailedRevisions = []string{f.spec.Revision()}
	var slots []string
	for _, a := range f.want("B").rolling().plan().Actions {
		slots = append(slots, a.Slot)
	}
	if !slices.Equal(slots, []string{"db-1", "db-0", "db-2"}) {
		t.Errorf("%v", slots)
	}
}
