package catalog_test

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/catalog"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Routes lead to a member during a refresh, in each phase in which a stopped member is out of the
// routes: its workload keeps running, and it may be the only leader.
func TestARefreshLeavesItsMemberInTheRoutes(t *testing.T) {
	for phase, stopped := range map[operation.Phase]bool{
		operation.Draining: true, operation.Drained: true, operation.Acting: true, operation.Booting: false, operation.Joining: false,
	} {
		for _, mode := range []operation.Mode{operation.ModeBoot, operation.ModeRefresh} {
			v := &view.View{
				Admissions: map[string]view.Rec[policy.Admission]{slot: {Value: policy.Admission{Group: "pg", Slot: slot, BootID: "b1"}}},
				Slots:      map[string]view.Rec[group.SlotRecord]{slot: {Value: group.SlotRecord{Group: "pg", Slot: slot, VIP: vip}}},
				Operations: map[string]view.Rec[operation.Operation]{"op": {Value: operation.Operation{ID: "op", Slot: slot, Kind: operation.Update, Phase: phase, Way: operation.Way{Mode: mode}}}},
			}
			m, ok := catalog.MemberOf(v, slot)
			if !ok || m.Draining != (stopped && mode == operation.ModeBoot) {
				t.Errorf("%s, mode %q: draining %t, %t", phase, mode, m.Draining, ok)
			}
		}
	}
}

// A refresh adds checks that are still pending. Routes use the verdicts of the earlier checks, as
// the agent reports them. Checks that count from the beginning of a Boot still hold the member
// back.
func TestARefreshOfChecksLeavesItsMemberInTheRoutes(t *testing.T) {
	const well, unhealthy, unknown = controlv1.Health_HEALTH_HEALTHY, controlv1.Health_HEALTH_UNHEALTHY, controlv1.Health_HEALTH_UNKNOWN
	of := func(name string, health controlv1.Health, pending bool) *controlv1.CheckResult {
		return &controlv1.CheckResult{Name: name, Health: health, Pending: pending}
	}
	for name, c := range map[string]struct {
		checks []*controlv1.CheckResult
		ready  bool
		health rollout.Health
		names  []string
	}{
		"before":          {[]*controlv1.CheckResult{of("a", well, false)}, true, rollout.Healthy, nil},
		"one came":        {[]*controlv1.CheckResult{of("a", well, false), of("b", unknown, true)}, true, rollout.Healthy, []string{"b"}},
		"it passes":       {[]*controlv1.CheckResult{of("a", well, false), of("b", well, false)}, true, rollout.Healthy, nil},
		"it fails":        {[]*controlv1.CheckResult{of("a", well, false), of("b", unhealthy, false)}, false, rollout.Unhealthy, nil},
		"the other fails": {[]*controlv1.CheckResult{of("a", unhealthy, false), of("b", unknown, true)}, false, rollout.Unhealthy, []string{"b"}},
		"of a Boot begun": {[]*controlv1.CheckResult{of("a", unknown, false)}, false, rollout.Unknown, nil},
		"none is left":    {nil, true, rollout.Healthy, nil},
		"only new checks": {[]*controlv1.CheckResult{of("b", unknown, true)}, true, rollout.Healthy, []string{"b"}},
	} {
		heard := reports.New(time.Now)
		heard.Put(slot, "b1", &controlv1.Report{
			Sequence: 1, MemberKnown: true, Member: &controlv1.MemberView{Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true, Role: controlv1.Role_ROLE_LEADER},
			Checks: c.checks, AgentSpec: "new",
		})
		got, _ := heard.Of(slot)
		m := catalog.Member{Records: catalog.Records{Group: "pg", Slot: slot, Boot: "b1", VIP: vip, Leased: true}}
		catalog.Hear(&m, got)
		if e := catalog.Want(m); e.Ready != c.ready || e.Role != "leader" {
			t.Errorf("%s: the entry is ready %t, %s, role %q", name, e.Ready, e.Why, e.Role)
		}
		if seen := got.Observed(); seen.Health != c.health || !slices.Equal(seen.Pending, c.names) || seen.AgentSpec != "new" {
			t.Errorf("%s: rollouts see %s, not judged %v, by %q", name, seen.Health, seen.Pending, seen.AgentSpec)
		}
	}
}

// The verdict of a check and the agent's adoption of the spec are changes that a refresh waits for.
func TestARefreshSeesItsChecksAtOnce(t *testing.T) {
	heard := reports.New(time.Now)
	put := func(sequence uint64, agentSpec string, pending bool) (news bool) {
		changed := heard.Changed()
		heard.Put(slot, "b1", &controlv1.Report{Sequence: sequence, AgentSpec: agentSpec, Checks: []*controlv1.CheckResult{{Name: "a", Pending: pending}}})
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	put(1, "old", false)
	for sequence, c := range []struct {
		agentSpec string
		pending   bool
		news      bool
	}{{"old", false, false}, {"new", false, true}, {"new", true, true}, {"new", true, false}, {"new", false, true}} {
		if got := put(uint64(2+sequence), c.agentSpec, c.pending); got != c.news {
			t.Errorf("report %d of %q, pending %t, is news: %t", 2+sequence, c.agentSpec, c.pending, got)
		}
	}
}

// Routes avoid a member whose service restarts, although its Boot stays and may briefly report
// healthy.
func TestRoutesAvoidARestartingService(t *testing.T) {
	for phase, stopped := range map[operation.Phase]bool{
		operation.Draining: true, operation.Drained: true, operation.Booting: true, operation.Joining: false, operation.Settling: false,
	} {
		v := &view.View{
			Admissions: map[string]view.Rec[policy.Admission]{slot: {Value: policy.Admission{Group: "pg", Slot: slot, BootID: "b1"}}},
			Slots:      map[string]view.Rec[group.SlotRecord]{slot: {Value: group.SlotRecord{Group: "pg", Slot: slot, VIP: vip}}},
			Operations: map[string]view.Rec[operation.Operation]{"op": {Value: operation.Operation{ID: "op", Slot: slot, Kind: operation.Restart, Way: operation.Way{Service: "db"}, Phase: phase}}},
		}
		if m, ok := catalog.MemberOf(v, slot); !ok || m.Draining != stopped {
			t.Errorf("%s: draining %t, %t", phase, m.Draining, ok)
		}
	}
}
