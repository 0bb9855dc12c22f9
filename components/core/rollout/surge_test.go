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

// surged is a group of n that may spare no member, in a rollout to B with an extra member, which is available at A.
func surged(n int, kind string) *fixture {
	f := newFixture(n+1, kind)
	zero, one := 0, 1
	f.spec.Replicas, f.rec.Status.Replicas = n, n
	f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxSurgeFixed = &zero, &one
	f.rec.Slots[n].Extra = true
	return f.want("B").rolling()
}

// TestR15_TheStatusMarksAnExtraSlot: the status marks the Slot during its whole life, including its removal.
func TestR15_TheStatusMarksAnExtraSlot(t *testing.T) {
	f := surged(2, "none")
	check := func(when string, kind operation.Kind) {
		t.Helper()
		p := f.plan()
		if a := actionOf(t, p, "db-2"); a.Kind != kind || !a.Extra {
			t.Errorf("%s: %+v", when, a)
		}
		for _, i := range p.Status.Instances {
			if i.Extra != (i.Slot == "db-2") {
				t.Errorf("%s: %s is told as extra: %t", when, i.Slot, i.Extra)
			}
		}
	}
	check("during the rollout", operation.Update)
	f.op(2, operation.Draining, nil)
	check("in a step", operation.Update)
	f.rec.Operations = nil
	for i := range f.rec.Slots {
		f.at(i, "B")
	}
	f.rec.Rollout.State = operation.Complete
	check("after it", operation.Delete)
}

// TestR15_AnExtraSlotIsWhereTheSpecNamesNone: an extra Slot is not at an ordinal that the spec leaves out or has
// settings for. An existing extra Slot stays for its rollout.
func TestR15_AnExtraSlotIsWhereTheSpecNamesNone(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want string
	}{
		"none is named":           {func(*fixture) {}, "db-3"},
		"one is left out":         {func(f *fixture) { f.spec.Without = []string{"db-3"} }, "db-4"},
		"one between is left out": {func(f *fixture) { f.spec.Without = []string{"db-1"} }, "db-4"},
		"one was kept back":       {func(f *fixture) { f.spec.Instances = []group.InstanceSettings{{Ordinal: 3, ExcludeFromRollout: true}} }, "db-4"},
		"two are named": {func(f *fixture) {
			f.spec.Without, f.spec.Instances = []string{"db-4"}, []group.InstanceSettings{{Ordinal: 1}, {Ordinal: 3}}
		}, "db-5"},
		"it is there": {func(f *fixture) {
			f.rec.Slots = append(f.rec.Slots, group.SlotRecord{Group: "db", Slot: "db-3", Ordinal: 3, Extra: true, VMUUID: "vm-db-3"})
			f.spec.Instances = []group.InstanceSettings{{Ordinal: 3, ExcludeFromRollout: true}}
		}, "db-3"},
	} {
		f := newFixture(3, "none")
		zero, one := 0, 1
		f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxSurgeFixed = &zero, &one
		c.edit(f)
		w := seenBy(f.want("B").rolling())
		var extras []string
		for _, m := range w.members {
			if m.extra {
				extras = append(extras, m.slot)
			}
		}
		if got := strings.Join(extras, " "); got != c.want {
			t.Errorf("%s: extra %q, want %q", name, got, c.want)
		}
	}
}

// TestR15_AnExtraMemberComesForAMachineOfAnotherSize: a step ended after its Boot had proved the Revision, and before its
// call for another size. The record names the Revision, and the update still needs an extra member. A step that is open
// needs no further one, unless its member serves between two parts of the change.
func TestR15_AnExtraMemberComesForAMachineOfAnotherSize(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture, *Instance)
		want []string
	}{
		"another size":             {func(_ *fixture, i *Instance) { i.Shape.InstanceType = "tdx.large" }, []string{"CREATE db-1"}},
		"the wanted size":          {func(*fixture, *Instance) {}, nil},
		"the platform works on it": {func(_ *fixture, i *Instance) { i.Shape.InstanceType, i.InProgress = "tdx.large", true }, nil},
		"its step is open": {func(f *fixture, i *Instance) {
			i.Shape.InstanceType = "tdx.large"
			f.op(0, operation.Draining, nil)
		}, nil},
		"its step waits between two parts, and it serves": {func(f *fixture, _ *Instance) {
			f.op(0, operation.Drained, func(op *operation.Operation) { op.Call.Applied = []operation.Part{operation.PartResources} })
		}, []string{"CREATE db-1"}},
	} {
		f := newFixture(1, "none")
		zero, one := 0, 1
		f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxSurgeFixed = &zero, &one
		f.want("B").rolling().at(0, "B")
		i := f.obs.Slots[0].Instance
		i.Shape = operation.Shape{InstanceType: "tdx.small", OSImage: "dstack-0.5.7", DiskGB: 20}
		c.edit(f, i)
		t.Run(name, func(t *testing.T) { wantExecutes(t, f.plan(), c.want...) })
	}
}

// TestR15_AnExtraMemberThatLivesIsNotLost: a Slot that listings lack for half a minute is given up. It is not given up
// while another member names it as its leader or follower.
func TestR15_AnExtraMemberThatLivesIsNotLost(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*fixture)
		given bool
	}{
		"nobody speaks for it": {func(*fixture) {}, true},
		"others follow it":     {func(f *fixture) { f.obs.Slots[1].Report.Leader = "db-3" }, false},
		"the leader sees it":   {func(f *fixture) { f.obs.Slots[0].Report.Followers = []string{"db-3"} }, false},
		"the word is stale": {func(f *fixture) {
			f.obs.Slots[1].Report.Leader, f.obs.Slots[1].Report.ReceivedAt = "db-3", f.now.Add(-time.Minute)
		}, true},
	} {
		f := surged(3, "patroni")
		f.silent(3, f.now.Add(-time.Hour))
		f.obs.Slots[3].Instance = nil
		f.rec.Slots[3].MissedSince = f.now.Add(-goneFor)
		c.edit(f)
		forgets := false
		p := f.plan()
		for _, slot := range p.Forget {
			forgets = forgets || slot == "db-3"
		}
		if forgets != c.given {
			t.Errorf("%s: forgets %v\n%s", name, p.Forget, describe(p))
		}
	}
}

// TestR15_AnExtraMemberNeedsAStepThatMayBegin: no extra member is made for a step that waits for an operator anyway. A
// drain and a restart boot no content that could be refused.
func TestR15_AnExtraMemberNeedsAStepThatMayBegin(t *testing.T) {
	ask := func(kind RequestKind, service string) func(*fixture) {
		return func(f *fixture) {
			f.asks("db-1", "q")
			f.obs.Requests[0].Kind, f.obs.Requests[0].Service = kind, service
		}
	}
	for name, c := range map[string]struct {
		edit func(*fixture)
		made bool
	}{
		"nothing":       {func(*fixture) {}, false},
		"a drain":       {func(f *fixture) { f.drains(1) }, true},
		"a service":     {ask(RequestRestart, "app"), true},
		"a restart":     {ask(RequestRestart, ""), true},
		"an update":     {ask(RequestUpdate, ""), false},
		"a replacement": {ask(RequestReplace, ""), false},
	} {
		f := newFixture(3, "none")
		zero, one := 0, 1
		f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxSurgeFixed = &zero, &one
		f.want("B").rolling()
		f.rec.Policy.RequireApproval = true
		f.rec.Policy.Approvals = map[string]policy.Approval{revisionOf(f.spec, "A"): {ComposeHash: hashOf("A")}}
		c.edit(f)
		p := f.plan()
		if made := hasAction(p, "db-3"); made != c.made {
			t.Errorf("%s: made %t\n%s", name, made, describe(p))
		}
	}
}

// TestR15_NoExtraMemberForARolloutThatWaits: for any reason of the wait, an existing extra member stays.
func TestR15_NoExtraMemberForARolloutThatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		made bool
	}{
		"nobody":          {func(*fixture) {}, true},
		"its type":        {func(f *fixture) { f.spec.UpdatePolicy.Type = group.Opportunistic }, false},
		"a pause":         {func(f *fixture) { f.obs.Pause = &Override{} }, false},
		"a freeze":        {func(f *fixture) { f.obs.Freeze = &Override{} }, false},
		"a missing word":  {func(f *fixture) { f.rec.Policy.RequireApproval = true }, false},
		"what is allowed": {func(f *fixture) { f.spec.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh }, false},
	} {
		f := newFixture(3, "none")
		zero, one := 0, 1
		f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxSurgeFixed = &zero, &one
		f.want("B").rolling()
		f.rec.Rollout.State = operation.Running
		c.edit(f)
		if w := newWorld(f.spec, f.rec, f.obs, f.now, f.t); w.surgeWaits() == c.made {
			t.Errorf("%s: waits %t", name, !c.made)
		}
		if p := f.plan(); hasAction(p, "db-3") != c.made {
			t.Errorf("%s: made %t\n%s", name, !c.made, describe(p))
		}
	}
}

// TestTheBudgetTellsOfExtraSlots in its text: the number of available extra Slots, without the candidate.
func TestTheBudgetTellsOfExtraSlots(t *testing.T) {
	f := surged(2, "none")
	for n, want := range []string{"max_unavailable is 0", "max_unavailable is 0, 1 extra slot is available", "max_unavailable is 0, 2 extra slots are available"} {
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		w.tally.extras = make([]*member, n)
		for i := range n {
			w.tally.extras[i] = &member{slot: "extra"}
		}
		if limit, text := w.budget(candidate{m: w.find("db-0"), condition: well}, &taken{}); limit != n || text != want {
			t.Errorf("%d, %q; want %d, %q", limit, text, n, want)
		}
	}
}

// TestR15_NoExtraMemberForASlotThatWaits: in any state of the rollout, a Slot gets an extra member only if its step
// can begin without an operator.
func TestR15_NoExtraMemberForASlotThatWaits(t *testing.T) {
	pin := func(f *fixture, name string) {
		f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, PinnedRevision: revisionOf(f.spec, name)}}
	}
	approved := func(f *fixture, names ...string) {
		f.rec.Policy.RequireApproval, f.rec.Policy.Approvals = true, map[string]policy.Approval{}
		for _, name := range names {
			f.rec.Policy.Approvals[revisionOf(f.spec, name)] = policy.Approval{ComposeHash: hashOf(name)}
		}
	}
	leader := func(f *fixture, handling string) {
		f.spec.UpdatePolicy.Leader = handling
		f.want("B").rolling().at(1, "B").at(2, "B")
	}
	for name, c := range map[string]struct {
		edit func(*fixture)
		made bool
	}{
		"pinned":                           {func(f *fixture) { pin(f, "B") }, true},
		"pinned to what is approved":       {func(f *fixture) { pin(f, "B"); approved(f, "A", "B") }, true},
		"pinned to what is not":            {func(f *fixture) { pin(f, "B"); approved(f, "A") }, false},
		"pinned to what is not recorded":   {func(f *fixture) { pin(f, "Z") }, false},
		"pinned to what is not offered":    {func(f *fixture) { pin(f, "B"); f.obs.Refused = map[string]string{revisionOf(f.spec, "B"): "no"} }, false},
		"the leader is left":               {func(f *fixture) { leader(f, "") }, true},
		"the leader is left, and asks":     {func(f *fixture) { leader(f, group.LeaderAsk) }, false},
		"the leader asks, and is asked of": {func(f *fixture) { leader(f, group.LeaderAsk); f.asksFor(RequestUpdate, "db-0", "q") }, true},
		"the leader asks, another is left": {func(f *fixture) { leader(f, group.LeaderAsk); f.at(2, "A") }, true},
	} {
		f := newFixture(3, "patroni")
		zero, one := 0, 1
		f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxSurgeFixed = &zero, &one
		f.rec.Rollout.State = operation.Running
		c.edit(f)
		if p := f.plan(); hasAction(p, "db-3") != c.made {
			t.Errorf("%s: made %t\n%s", name, !c.made, describe(p))
		}
	}
}

// TestR15_SettingsOfAnExtraSlotKeepItFromNoRollout: an extra member runs a new Revision before the members with data of
// their own, for any settings of its ordinal. A rollout is complete without the extra member.
func TestR15_SettingsOfAnExtraSlotKeepItFromNoRollout(t *testing.T) {
	for name, edit := range map[string]func(*fixture){
		"a mark":  func(f *fixture) { f.excludes(2, group.FromRollout) },
		"a field": func(f *fixture) { f.spec.Instances = []group.InstanceSettings{{Ordinal: 2, ExcludeFromRollout: true}} },
		"a pin": func(f *fixture) {
			f.spec.Instances = []group.InstanceSettings{{Ordinal: 2, PinnedRevision: f.rec.Status.Stable}}
		},
	} {
		f := surged(2, "none")
		edit(f)
		p := f.plan()
		wantExecutes(t, p, "UPDATE db-2")
		if slices.ContainsFunc(p.Warnings, func(one string) bool { return strings.Contains(one, "excluded") }) {
			t.Errorf("%s: warns %q", name, p.Warnings)
		}
		f = surged(2, "none").at(0, "B").at(1, "B")
		edit(f)
		if p := f.plan(); p.Rollout.State != operation.Complete {
			t.Errorf("%s: %s: %s", name, p.Rollout.State, p.Rollout.Reason)
		}
	}
	f := surged(2, "none")
	f.spec.UpdatePolicy.Partition = 3
	if p := f.plan(); len(executes(p)) > 0 {
		t.Errorf("the partition holds for all: begins %v", executes(p))
	}
}

// TestR15_NoExtraMemberWhileEachStepWaits: a gate, a version or the consent of an operator holds each update. One update
// that may begin, or a step by a Slot's name, is enough.
func TestR15_NoExtraMemberWhileEachStepWaits(t *testing.T) {
	step := group.Gate{Name: "g", On: []string{group.GateOnStep}}
	slot := group.Gate{Name: "g", On: []string{group.GateOnStep}, Per: group.GatePerSlot}
	etcd := func(from, to string) *fixture {
		return versionFixture(3, "etcd", from, to).runs("3.5.35", "3.5.0", 0, 1, 2)
	}
	lastOld := func() *fixture {
		return etcd("etcd:3.5.35", "etcd:3.6.16").runs("3.6.16", "3.5.0", 1, 2).atTarget(1).atTarget(2)
	}
	for name, c := range map[string]struct {
		f    *fixture
		edit func(*fixture)
		made bool
	}{
		"a gate of the group":        {newFixture(3, "none").want("B").gate(step), nil, false},
		"a gate that is open":        {newFixture(3, "none").want("B").gate(step).setting("g", "open", "", 0), nil, true},
		"a gate of the slot":         {newFixture(3, "none").want("B").gate(slot), nil, false},
		"one ticket is open":         {newFixture(3, "none").want("B").gate(slot), (*fixture).opensFirst, true},
		"a version that never works": {etcd("etcd:3.5.35", "etcd:3.7.3"), nil, false},
		"a version that works":       {etcd("etcd:3.5.35", "etcd:3.6.16"), nil, true},
		"the last old one":           {lastOld(), nil, false},
		"the last old one, by name":  {lastOld(), func(f *fixture) { f.asksFor(RequestUpdate, "db-0", "q") }, true},
		"a drain behind the gate":    {newFixture(3, "none").want("B").gate(step), func(f *fixture) { f.drains(1) }, true},
		"a restart behind the gate":  {newFixture(3, "none").want("B").gate(step), func(f *fixture) { f.asks("db-1", "q") }, false},
		"another group":              {newFixture(3, "none").want("B").after("its rollout is RUNNING"), nil, false},
		"another group, overridden": {newFixture(3, "none").want("B").after("its rollout is RUNNING"), func(f *fixture) {
			f.obs.HoldOverrides = map[string]*Override{HoldAfterGroup: {Until: f.now.Add(time.Hour), Rollout: f.rec.Rollout.ID}}
		}, true},
		"a step that began": {newFixture(3, "none").want("B").gate(step), func(f *fixture) {
			f.op(1, operation.Booting, func(op *operation.Operation) { op.To = f.spec.Revision() })
		}, true},
	} {
		zero, one := 0, 1
		c.f.rolling()
		c.f.spec.UpdatePolicy.MaxUnavailableFixed, c.f.spec.UpdatePolicy.MaxSurgeFixed = &zero, &one
		c.f.rec.Rollout.State = operation.Running
		if c.edit != nil {
			c.edit(c.f)
		}
		p := c.f.plan()
		a := actionOf(t, p, "db-3")
		if a.Kind != operation.Create || a.Execute != c.made || a.HeldBy(HoldSurgeWaits) == c.made {
			t.Errorf("%s: made %t\n%s", name, a.Execute, describe(p))
		}
	}
}

// opensFirst opens the gate g for the first update of the plan.
func (f *fixture) opensFirst() {
	for _, a := range f.plan().Actions {
		if a.Slot == "db-2" {
			f.setting("g/db-2", group.GateOpen, a.Ticket, 0)
		}
	}
}
